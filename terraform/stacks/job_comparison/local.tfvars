# The laptop's profile: the queues that `make up` has, as if others had made them. Its name and its prefix
# are its own, since the core stack stands there, too.
name                     = "comparison"
airflow_variables_prefix = "/comparison/variables"
local_cloud              = true
force_destroy            = true

job_queue_arns = [
  "arn:aws:batch:us-east-1:123456789012:job-queue/batchmark-g4dn-xlarge",
  "arn:aws:batch:us-east-1:123456789012:job-queue/batchmark-c5-2xlarge",
]

job_definition_arns = ["arn:aws:batch:us-east-1:123456789012:job-definition/batchmark_job_*"]

log_group_names = ["/aws/batch/batchmark"]
