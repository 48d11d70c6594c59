"""AWS Batch: moto's, with jobs that run as processes or containers."""
