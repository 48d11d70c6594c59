"""Synthetic sets of images in shards, for training that reads files."""
