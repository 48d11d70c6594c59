"""What runs on each rank of a distributed row."""
