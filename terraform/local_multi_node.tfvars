# The laptop's profile for multi-node jobs, whose containers have no way out of a public subnet; their
# own stack is applied beside it. The one target is there because an installation needs one.
local_cloud   = true
force_destroy = true
purchasing    = "on_demand"

enable_nat_gateway = true

gpu_instance_types = []
cpu_instance_types = ["c5.2xlarge"]

target_overrides = {
  "c5.2xlarge" = { vcpus = 2, memory_mib = 4096 }
}
