"""The first quarter of an hour on a GPU: what runs there, what is right, how fast it is."""
