"""ECS and EC2 views of Batch's jobs: their tasks, and the instances these run on."""
