"""Shows Batch's jobs in ECS and EC2: their tasks and the instances they run on."""
