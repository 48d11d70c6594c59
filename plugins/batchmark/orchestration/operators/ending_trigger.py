"""Base class for triggers that end their tasks themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from airflow.sdk.execution_time.xcom import XCom

# Tasks of killed triggers, referenced here because asyncio holds only weak references.
_ENDINGS: set[asyncio.Task[None]] = set()


async def run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Finish the work even if the `on_kill` awaiting it is cancelled.

    Airflow 3.3 cancels a killed trigger, including its `on_kill`, every second until it ends
    (TriggerRunnerSupervisor sends `cancelling_triggers` with each sync).
    """
    task = asyncio.create_task(work)
    _ENDINGS.add(task)
    task.add_done_callback(_ENDINGS.discard)
    await asyncio.shield(task)


class EndsItsTask:
    """Mixin for a BaseTrigger that ends its own task.

    Airflow 3.3 can lose short deferrals when tasks return to a worker; see BenchmarkJobTrigger.
    """

    task_instance: Any
    log: Any

    async def push_xcoms(self, xcoms: dict[str, Any]) -> None:
        """Push XComs the way a worker would.

        Airflow 3.3 encodes an event's XComs as JSON twice (TaskInstance.xcom_push), but a pull
        decodes them only once.
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
            self.log.exception("The task's XComs could not be stored")
