"""The machine that the job runs on: its CUDA, NVML, memory, threads and state."""
