"""A trigger with scripted answers of Batch and a clock of its own."""

import asyncio
import threading

from batchmark.aws.batch_jobs import describe_jobs
from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
from batchmark.orchestration.operators.job_watch import Answer
from tests.stand_ins.batch import (
    ON_DEMAND_QUEUE,
    RECLAIMED,
    SPOT_QUEUE,
    TAGS,
    FakeBatch,
    FakeClients,
)
from tests.stand_ins.marked_log import MarkedLog

NAME = "batchmark-g5-xlarge-smoke-1-0123456789-g0"
CREATED = 1_795_222_701.0  # when FakeBatch's first job was created
REQUEST = {"jobName": NAME, "jobDefinition": "definition:1", "parameters": {"suite": "smoke"}}
REQUEST |= {"tags": TAGS}
ON_DEMAND = REQUEST | {"jobQueue": ON_DEMAND_QUEUE}
OUTAGE = Answer(problem="connection refused")
SUCCEEDED = {"status": "SUCCEEDED"}
RUNNING = {"status": "RUNNING"}
LOST_HOST = {
    "status": "FAILED",
    "statusReason": RECLAIMED,
    "attempts": [{"statusReason": RECLAIMED, "startedAt": 1, "stoppedAt": 2}] * 2,
}


class Following:
    """A trigger with a fake Batch; a script moves the clock and Batch's jobs at each poll."""

    def __init__(
        self, *, trigger=BenchmarkJobTrigger, document=None, s3=None, children=(), **arguments
    ):
        self.batch = FakeBatch()
        self.now = CREATED
        self.script = []
        self.diagnosed = []
        self.slept = []
        if children:
            self.job_id = self.batch.add_array(NAME, children)
        elif "request" not in arguments:  # else the trigger is to submit it
            self.job_id = self.batch.add(NAME, "RUNNABLE")
        else:
            self.job_id = None
        self.trigger = trigger(
            job_id=self.job_id, document=document, aws_conn_id=None, waiter_delay=2, **arguments
        )
        self.trigger.clients = FakeClients(batch=self.batch, logs=MarkedLog(), s3=s3)
        self.trigger.watch = self
        self.trigger.clock = lambda: self.now
        self.trigger.sleep = self.sleep
        self.trigger.diagnosis = self.diagnose
        self.trigger.push_xcoms = self.push_xcoms
        self.xcoms = {}

    async def push_xcoms(self, xcoms):
        self.xcoms |= xcoms

    async def next(self, job_id):
        assert self.script, f"the trigger polls once more; Batch: {self.batch.jobs}"
        seconds, change = self.script.pop(0)
        self.now += seconds
        if callable(change):
            change = change()
        if isinstance(change, Answer):
            return change
        if change and job_id in self.batch.jobs:
            self.batch.change(job_id, **change)
        return Answer(describe_jobs(self.batch, [job_id]).get(job_id))

    def ending(self, job_id):
        """What a script does when another job ends."""
        return lambda: self.batch.change(job_id, status="SUCCEEDED")

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def diagnose(self, job):
        assert threading.current_thread() is not threading.main_thread()
        self.diagnosed.append(job["status"])
        return "The queue's compute environment is INVALID; apply Terraform again."

    def event(self, *script):
        self.script = list(script)

        async def events():
            return [event async for event in self.trigger.run()]

        (event,) = asyncio.run(events())
        assert self.script == []
        return event.task_instance_state

    def succeeds(self, *script):
        """The XComs of a task that succeeds with this script."""
        assert self.event(*script) == "success"
        return self.xcoms

    def fails(self, *script):
        """Why a task fails with this script."""
        assert self.event(*script) == "failed"
        return self.xcoms["failure"]


REQUESTED = REQUEST | {"jobQueue": SPOT_QUEUE}


class Waiting(Following):
    """A trigger that is to submit its job; Airflow tells these states of the task before it.

    Attributes:
        asked: the map index that Airflow was asked for each time, and what was submitted by then.
        errors: by map index, how jobs of other tasks failed that would fail so again.
        pending: what happens during the next pauses of the trigger, one in each.
    """

    def __init__(self, states=(), errors=None, **arguments):
        super().__init__(**{"request": REQUESTED, "after": 0} | arguments)
        self.states, self.asked, self.pending = list(states), [], []
        self.trigger.is_over = self.is_over
        self.errors = errors or {}
        self.trigger.own_error = self.own_error

    async def own_error(self, map_index):
        return self.errors.get(map_index)

    async def is_over(self, map_index):
        self.asked.append((map_index, list(self.batch.submissions)))
        return self.states.pop(0)

    async def sleep(self, seconds):
        await super().sleep(seconds)
        if self.pending:
            self.pending.pop(0)()
