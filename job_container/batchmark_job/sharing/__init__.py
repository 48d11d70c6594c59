"""Measures tasks that run at once on one device: total throughput, and each task's slowdown."""
