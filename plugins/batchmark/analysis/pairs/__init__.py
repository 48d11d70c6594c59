"""Compares GPU and CPU targets' rows and whole jobs, and finds where the GPU pays off."""
