name                = "test"
log_group_name      = "/aws/batch/test"
pull_and_log_policy = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
task_trust_policy   = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"

retry_rules = [
  { action = "RETRY", on_reason = null, on_status_reason = "Host EC2*" },
  { action = "EXIT", on_reason = "*", on_status_reason = null },
]

targets = {
  "g5.xlarge"        = { device = "cuda", vcpus = 4, memory_mib = 14336, gpus = 1 }
  "c5.2xlarge"       = { device = "cpu", vcpus = 8, memory_mib = 14336, gpus = 0 }
  "g5.xlarge-shared" = { device = "cuda", vcpus = 1, memory_mib = 2048, gpus = 0, sharing = "mps" }
}

own_jobs = {
  thumbnails = {
    image   = "111122223333.dkr.ecr.us-east-1.amazonaws.com/pictures/thumbnails:1.4"
    command = ["python", "convert.py", "--size", "Ref::size"]
    axis    = { parameter = "size", sizes = [64, 128] }
  }
}
