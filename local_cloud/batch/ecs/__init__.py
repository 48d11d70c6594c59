"""Shows Batch's jobs in ECS and EC2: as tasks, and the instances on which they run."""
