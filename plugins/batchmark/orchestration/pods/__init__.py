"""The pods that share GPUs: the cluster that runs them, the task that does, and how it watches."""
