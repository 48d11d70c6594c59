# What does Spot save, and what does it cost in interruptions? Some targets try Spot first, one takes
# nothing but Spot, and one nothing but On-Demand, as a reference without interruptions.
name = "batchmark-spot"

gpu_instance_types = ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"]
cpu_instance_types = ["c5.2xlarge", "m5.2xlarge"]

target_overrides = {
  "g4dn.xlarge" = { purchasing = "spot", attempts = 5 }
  "m5.2xlarge"  = { purchasing = "on_demand" }
}
