"""AWS Batch whose jobs are processes on this machine."""
