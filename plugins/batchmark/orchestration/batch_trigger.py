"""The trigger's import path in 0.2, kept in 0.3 because Airflow stores it with deferred tasks."""

from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger

__all__ = ["BenchmarkJobTrigger"]
