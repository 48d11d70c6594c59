"""A first check of the project on a GPU: what works, is it correct, and how fast is it."""
