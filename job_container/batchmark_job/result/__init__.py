"""The contract between the job and the rest of Batchmark: what a result document contains."""
