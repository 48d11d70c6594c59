"""The trigger's path in 0.1, kept through 0.2: Airflow stores it with each deferred task."""

from batchmark.orchestration.batch_trigger import BenchmarkJobTrigger

__all__ = ["BenchmarkJobTrigger"]
