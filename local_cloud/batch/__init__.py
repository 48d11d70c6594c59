"""Emulates AWS Batch, based on moto, with jobs that actually run as processes or containers."""
