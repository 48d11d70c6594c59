"""Measures the total throughput and individual slowdown of tasks that run at once on one device."""
