"""Code that workloads share: torch, OpenCV, SciPy, Triton, CUDA graphs, training, references."""
