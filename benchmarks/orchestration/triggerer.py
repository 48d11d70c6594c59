"""Runs triggers in one event loop, as Airflow's triggerer does, and reports when each one fired.

Reads a JSON list of job ids from standard input and prints one JSON object at the end.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Sequence

from airflow.providers.amazon.aws.triggers.batch import BatchJobTrigger

from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger

TRIGGERS = {"batchmark": BenchmarkJobTrigger, "provider": BatchJobTrigger}


async def first_event(trigger: BatchJobTrigger) -> float:
    """When a trigger fired, in seconds since the epoch."""
    async for _ in trigger.run():
        return time.time()
    raise RuntimeError("the trigger ended without an event")


async def watch(triggers: Sequence[BatchJobTrigger]) -> list[float]:
    return await asyncio.gather(*(first_event(trigger) for trigger in triggers))


def main() -> None:
    contender, interval = sys.argv[1], int(sys.argv[2])
    ids = json.load(sys.stdin)
    began = time.monotonic()
    triggers = [
        TRIGGERS[contender](
            job_id=job_id, waiter_delay=interval, aws_conn_id=None, region_name="us-east-1"
        )
        for job_id in ids
    ]
    seen = asyncio.run(watch(triggers))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "seen": dict(zip(ids, seen, strict=True)),
                "wall_seconds": time.monotonic() - began,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
            }
        )
    )


if __name__ == "__main__":
    main()
