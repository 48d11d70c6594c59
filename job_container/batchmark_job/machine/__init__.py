"""The machine that the job runs on: CUDA, NVML, memory, threads, and its state."""
