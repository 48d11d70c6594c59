# A host with four GPUs beside one with a single one. The job definition asks for all of its instance's GPUs; the
# workloads of today use the first, so this is for workloads of your own that use them all.
name = "batchmark-multi"

gpu_instance_types = ["g5.xlarge", "g5.12xlarge"]
cpu_instance_types = ["c5.9xlarge"]

# Two of the 48-vCPU type at a time in each compute environment; EC2's quota "Running On-Demand G and VT instances" counts vCPUs.
max_vcpus = 96

target_overrides = {
  "g5.12xlarge" = { timeout_seconds = 7200 }
}
