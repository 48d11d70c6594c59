# The cheapest question: does one small GPU beat one CPU instance of about its price?
name = "batchmark-min"

gpu_instance_types = ["g4dn.xlarge"]
cpu_instance_types = ["c5.2xlarge"]

# One instance of each at a time, as max_vcpus counts in each compute environment (Batch may exceed it by
# one instance). The budget warns early.
purchasing         = "on_demand"
max_vcpus          = 8
target_overrides   = { "g4dn.xlarge" = { max_vcpus = 4 } }
monthly_budget_usd = 20

# Alerts reach nobody without it. Change a copy, such as terraform/my.tfvars, which git ignores: `make image` wants all committed.
# alert_emails = ["you@example.org"]
