# The cheapest question: does one small GPU beat one CPU instance of about its price?
name = "batchmark-min"

gpu_instance_types = ["g4dn.xlarge"]
cpu_instance_types = ["c5.2xlarge"]

# One instance of each at a time, and a budget that warns early.
max_vcpus          = 8
monthly_budget_usd = 20
