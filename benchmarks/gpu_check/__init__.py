"""The first check of the project on a GPU: what works, whether it is correct, how fast it is."""
