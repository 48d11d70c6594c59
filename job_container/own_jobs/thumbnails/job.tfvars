# The example of your own job: the same work by Pillow on CPUs and by torch on GPUs, on pictures of four sizes.
own_jobs = {
  thumbnails = {
    images          = { cpu = "thumbnails:cpu", cuda = "thumbnails:gpu" }
    command         = ["python3", "convert.py", "--size", "Ref::size"]
    axis            = { parameter = "size", sizes = [512, 768, 1024, 1536] }
    check           = "python3 convert.py --check"
    timeout_seconds = 300
  }
}
