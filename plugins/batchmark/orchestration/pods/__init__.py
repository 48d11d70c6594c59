"""Runs pods that share GPUs, using the cluster's API, an operator and a watch."""
