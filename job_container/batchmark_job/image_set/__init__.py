"""Makes synthetic image sets in shards, for training that reads files."""
