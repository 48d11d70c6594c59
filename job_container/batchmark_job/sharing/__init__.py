"""Measures the total throughput and individual slowdown of tasks that share one device."""
