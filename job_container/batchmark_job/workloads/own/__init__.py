"""Users' own workloads: their files, what is wrong with these, and the code in them."""
