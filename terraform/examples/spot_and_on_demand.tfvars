# How do Spot and On-Demand go together? Some targets try Spot first, one takes nothing but Spot, one limits
# Spot to a part of its instances, and one takes nothing but On-Demand, as a reference without interruptions.
# Reports count On-Demand prices for all of them; what Spot saved shows in Cost Explorer, by the tag Target.
name = "batchmark-spot"

gpu_instance_types = ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"]
cpu_instance_types = ["c5.2xlarge", "m5.2xlarge"]

target_overrides = {
  "g4dn.xlarge" = { purchasing = "spot", attempts = 5 }
  "g5.xlarge"   = { spot_max_vcpus = 16 }
  "m5.2xlarge"  = { purchasing = "on_demand" }
}
