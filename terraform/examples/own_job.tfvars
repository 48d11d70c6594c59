# Would a GPU pay off for a job that exists already? Its image and its command as they are, on one small GPU
# and on one CPU instance of about its price.
name = "batchmark-job"

gpu_instance_types = ["g4dn.xlarge"]
cpu_instance_types = ["c5.2xlarge"]
purchasing         = "on_demand"
max_vcpus          = 8

own_jobs = {
  thumbnails = {
    # Yours, by tag or digest. One image = "…" where both devices run the same.
    images = {
      cpu  = "111122223333.dkr.ecr.us-east-1.amazonaws.com/thumbnails:1.0-cpu"
      cuda = "111122223333.dkr.ecr.us-east-1.amazonaws.com/thumbnails:1.0"
    }

    # Batch puts each size in place of Ref::size.
    command = ["python3", "convert.py", "--size", "Ref::size"]
    axis    = { parameter = "size", sizes = [256, 512, 1024, 2048] }

    # The owner's word: a side whose check fails is not compared.
    check           = "python3 convert.py --check"
    timeout_seconds = 900
  }
}
