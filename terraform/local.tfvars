# The laptop's profile: one GPU and one CPU target, each asking for 2 vCPUs, so that on a pool of
# two no two jobs ever measure at the same time.
local_cloud   = true
force_destroy = true

gpu_instance_types = ["g4dn.xlarge"]
cpu_instance_types = ["c5.2xlarge"]

target_overrides = {
  "g4dn.xlarge" = { vcpus = 2, memory_mib = 4096, allow_cpu_fallback = true }
  "c5.2xlarge"  = { vcpus = 2, memory_mib = 4096 }
}

# What job_comparison may run here: your own jobs, in the queues that are there anyway.
comparison_access = {
  job_queue_arns      = []
  job_definition_arns = ["arn:aws:batch:us-east-1:123456789012:job-definition/batchmark_job_*"]
}
