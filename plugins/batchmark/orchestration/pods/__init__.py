"""Runs pods that share GPUs, with the cluster's API, an operator and its watch."""
