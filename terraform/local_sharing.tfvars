# The laptop's profile for sharing: a GPU target for jobs of several processes, and one for jobs that share
# an instance. The second's five jobs of one vCPU run at once on whatever cores there are, and nothing else
# beside them.
local_cloud   = true
force_destroy = true
purchasing    = "on_demand"

gpu_instance_types = ["g4dn.xlarge"]
cpu_instance_types = []

shared_targets = {
  "g4dn.2xlarge-shared" = { instance_type = "g4dn.2xlarge", mode = "time_slicing", max_replicas = 5 }
}

target_overrides = {
  "g4dn.xlarge"         = { vcpus = 2, memory_mib = 4096, allow_cpu_fallback = true }
  "g4dn.2xlarge-shared" = { memory_mib = 1536, allow_cpu_fallback = true }
}
