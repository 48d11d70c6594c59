"""A first check of the project on a GPU: does it work, is it correct, and how fast is it?"""
