# For accounts that allow no public addresses: instances in private subnets reach AWS through interface
# endpoints and nothing else; everything at rest is encrypted with a key of the account's own, and
# network flows are logged. The endpoints and the key cost money while idle: docs/runbook.md says how much.
name = "batchmark-private"

gpu_instance_types = ["g5.xlarge"]
cpu_instance_types = ["c5.2xlarge"]

enable_interface_endpoints = true
create_kms_key             = true
flow_log_retention_days    = 30
