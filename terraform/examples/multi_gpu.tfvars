# From one GPU to four on one host: the job definition asks for all GPUs of its instance.
name = "batchmark-multi"

gpu_instance_types = ["g5.xlarge", "g5.12xlarge"]
cpu_instance_types = ["c5.12xlarge"]

# Two of the 48-vCPU types at a time; EC2's quota "Running On-Demand G and VT instances" counts vCPUs.
max_vcpus = 96

target_overrides = {
  "g5.12xlarge" = { timeout_seconds = 7200 }
}
