"""What ECS and EC2 tell of Batch's jobs: their tasks, and the instances that these run on."""
