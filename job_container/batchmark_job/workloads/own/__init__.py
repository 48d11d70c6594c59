"""Users' own workloads: reading and checking their files, and running their code."""
