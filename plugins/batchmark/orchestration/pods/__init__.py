"""Runs pods that share GPUs: the cluster API, the operator and its watch."""
