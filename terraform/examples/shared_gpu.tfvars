# How many of your tasks may share one GPU? The same machine three times: to itself, by time slices, by MPS.
# Each job of a shared target needs a vCPU, so 20 of them need the 32 of an 8xlarge, which has one GPU as the
# xlarge does. Idle, none of the three costs anything; a run starts one instance of each that it measures.
name = "batchmark-shared"

gpu_instance_types = ["g5.8xlarge"]
cpu_instance_types = []

shared_targets = {
  "g5.8xlarge-shared" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 }
  "g5.8xlarge-mps"    = { instance_type = "g5.8xlarge", mode = "mps", max_replicas = 20 }
}

# All three on On-Demand: shared targets buy nothing else.
purchasing = "on_demand"
