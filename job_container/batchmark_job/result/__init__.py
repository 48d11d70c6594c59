"""The contract between the job and the rest: what a result document holds."""
