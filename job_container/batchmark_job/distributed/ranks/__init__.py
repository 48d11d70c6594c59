"""The code that runs on each rank of a distributed row."""
