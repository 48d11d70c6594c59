"""The trigger's import path in 0.2, kept through 0.3: Airflow stores it with deferred tasks."""

from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger

__all__ = ["BenchmarkJobTrigger"]
