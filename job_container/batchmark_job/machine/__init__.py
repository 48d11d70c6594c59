"""What the job runs on: CUDA, NVML, memory, threads, and their state while measuring."""
