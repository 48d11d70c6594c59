"""Stacks for tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from laptop.session import Clock
from laptop.stack import Ports, Stack

if TYPE_CHECKING:
    from pathlib import Path

    from laptop.airflow import AirflowClient


def open_stack(folder: Path) -> Stack:
    """A stack on free ports, of which nothing is started yet; leaving its context ends it."""
    return Stack(folder, Ports(), Clock().say)


def wait_for_end(airflow: AirflowClient, dag_id: str, run_id: str, seconds: float = 540) -> str:
    deadline = time.monotonic() + seconds
    while (state := airflow.state(dag_id, run_id)) not in ("success", "failed"):
        assert time.monotonic() < deadline, f"DAG run {run_id} is still {state}"
        time.sleep(1)
    return state
