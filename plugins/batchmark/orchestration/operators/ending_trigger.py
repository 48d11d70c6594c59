"""What the triggers have in common that end their tasks themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from airflow.sdk.execution_time.xcom import XCom

# Of triggers that are killed: asyncio itself keeps no task alive.
_ENDINGS: set[asyncio.Task[None]] = set()


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do it all, also where `on_kill`, which waits for it, is cancelled.

    Airflow 3.3 cancels a killed trigger every second until it has ended, and so its `on_kill` too
    (TriggerRunnerSupervisor sends `cancelling_triggers` with each sync).
    """
    task = asyncio.create_task(work)
    _ENDINGS.add(task)
    task.add_done_callback(_ENDINGS.discard)
    await asyncio.shield(task)


class EndsItsTask:
    """Beside BaseTrigger, which has the task and the log.

    Going back to a worker is where Airflow 3.3 loses short deferrals; see BenchmarkJobTrigger.
    """

    task_instance: Any
    log: Any

    async def push_xcoms(self, xcoms: dict[str, Any]) -> None:
        """Push XComs as a worker does.

        Airflow 3.3 stores an event's XComs as JSON within JSON (TaskInstance.xcom_push), which
        pulling them does not undo.
        """
        task = self.task_instance
        if task is None:
            return
        try:
            for key, value in xcoms.items():
                await XCom.aset(
                    key,
                    value,
                    dag_id=task.dag_id,
                    task_id=task.task_id,
                    run_id=task.run_id,
                    map_index=task.map_index,
                )
        except Exception:  # it must not keep the task from ending
            self.log.exception("XComs are missing")
