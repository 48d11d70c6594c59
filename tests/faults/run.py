"""A run of the matrix, and the DAGs and tasks that it may have."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

DAG = "faults"
DAG_TIME_OUT = "faults_time_out"
DAG_SLOWER = "faults_slower"
DAG_SEND = "send_alerts"
# The product's own.
DAG_LAYERED = "distributed_training_benchmark"
DAG_GUARD = "leak_guard"
DAG_COMPARISON = "job_comparison"
OWN_DAGS = (DAG_LAYERED, DAG_GUARD, DAG_COMPARISON)
DAGS = (DAG, DAG_TIME_OUT, DAG_SLOWER, DAG_SEND, *OWN_DAGS)
TASK = "run_benchmark"
COLLECT = "collect_results"
STAND_UP, COLLAPSE = "stand_up_file_system", "collapse_file_system"


@dataclass
class Run:
    """One DAG run with one planned job, or two; its gate holds the job until it is opened."""

    run_id: str
    dag_id: str
    target: str
    gate: Path
    linger: Path
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    marked: frozenset[str] = frozenset()  # tasks that a user ended
    guarded: bool = False  # the leak guard ended what it left

    def open(self) -> None:
        self.gate.touch()
