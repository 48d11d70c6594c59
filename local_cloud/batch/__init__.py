"""AWS Batch, based on moto's, with jobs that actually run as processes or containers."""
