"""Workloads, one file each: the built-in ones and those written by users."""
