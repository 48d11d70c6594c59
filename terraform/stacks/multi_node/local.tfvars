# The laptop's profile, beside terraform/local_multi_node.tfvars: two nodes of one vCPU run at once on two
# cores. Without a GPU type, since two nodes would ask for two GPUs.
local_cloud = true

instance_type  = "c5.2xlarge"
most_nodes     = 2
job_vcpus      = 1
job_memory_mib = 1536
