"""The trigger's 0.2 import path, kept in 0.3 because Airflow stores it with deferred tasks."""

from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger

__all__ = ["BenchmarkJobTrigger"]
