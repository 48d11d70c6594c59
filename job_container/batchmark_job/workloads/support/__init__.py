"""Code shared by workloads: torch, OpenCV, SciPy, Triton, CUDA graphs, training, references."""
