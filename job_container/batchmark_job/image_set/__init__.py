"""Makes sharded sets of synthetic images, for training that reads files."""
