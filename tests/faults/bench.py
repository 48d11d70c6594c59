"""The stack that faults are inflicted on, and how a run on it is begun and watched."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import describe_jobs, list_jobs
from batchmark.aws.result_bucket import RunStore
from batchmark.core.names import RUN_TAG, slug
from batchmark_job.result.document import ResultDocument, parse_document
from laptop.aws import AwsClients
from laptop.stack import ROOT, Stack
from tests.clouds import control_of
from tests.faults.layer import Layer
from tests.faults.outcome import (
    COLLAPSE,
    DAG,
    DAG_GUARD,
    DAG_LAYERED,
    DAG_SEND,
    STAND_UP,
    TASK,
    Run,
)
from tests.faults.targets import job_prefix
from tests.inbox import Inbox
from tests.stand_ins.stranger import listening
from tests.user_client import UserClient
from tests.waiting import PATIENCE_SECONDS, wait_for

T = TypeVar("T")

CLOUD = "local-cloud"
AT_WORK = ("scheduled", "queued", "running", "deferred", "up_for_retry", "restarting")
ASKED_AGAIN = (httpx.HTTPError, BotoCoreError, ClientError)
# For a file system that is being deleted to be gone.
LAYER_GRACE_SECONDS = 60
WORKER = "airflow worker -- "
EXECUTOR = "LocalExecutor"


class Bench:
    """A running stack with its clients. Everything may be called from several threads."""

    def __init__(self, stack: Stack, airflow: UserClient, aws: AwsClients, folder: Path) -> None:
        self.stack = stack
        self.airflow = airflow
        self.instructions = folder
        self.batch, self.s3, self.logs = map(aws.client, ("batch", "s3", "logs"))
        self.config = aws.config()
        self.layer = Layer(aws, self.config, stack.aws)
        self._inbox = Inbox(aws, "faults")
        self._messages: list[dict[str, Any]] = []
        self._reading = threading.Lock()
        self._control = control_of(stack.endpoint, stack.aws["AWS_SECRET_ACCESS_KEY"])

    def close(self) -> None:
        self._control.close()

    # Faults of AWS

    def begin(self, kind: str, **fields: Any) -> str:
        """Begin a fault of the local cloud and return its id."""
        answer = self._control.post("/_faults", json={"kind": kind, **fields})
        answer.raise_for_status()
        return str(answer.json()["id"])

    def end(self, fault_id: str) -> None:
        self._control.delete(f"/_faults/{fault_id}")

    @contextmanager
    def fault(self, kind: str, **fields: Any) -> Iterator[str]:
        """A fault of the local cloud, by its id, for as long as this lasts."""
        fault_id = self.begin(kind, **fields)
        try:
            yield fault_id
        finally:
            self.end(fault_id)

    def faults(self) -> dict[str, dict[str, Any]]:
        """Those under way, by id."""
        return {one["id"]: one for one in self._control.get("/_faults").json()["faults"]}

    def pids_of_job(self, job_id: str) -> list[int]:
        pids: list[int] = self._control.get(f"/_faults/jobs/{job_id}").json()["pids"]
        return pids

    def kill_node(self, job_id: str, node: int) -> None:
        self._control.post(f"/_faults/jobs/{job_id}/nodes/{node}/kill").raise_for_status()

    def mend(self) -> None:
        """End all faults of the local cloud."""
        self._control.delete("/_faults")

    # Runs

    def start(
        self,
        run_id: str,
        target: str = "plain",
        *,
        dag_id: str = DAG,
        gated: bool = True,
        conf: Mapping[str, Any] | None = None,
        **told: Any,
    ) -> Run:
        """Trigger a run whose job waits at its gate, and else does as it is told."""
        run = Run(
            run_id,
            dag_id,
            target,
            self.instructions / f"{run_id}.gate",
            self.instructions / f"{run_id}.linger",
        )
        if told.pop("lingers", False):
            told["linger"] = str(run.linger)
        instructions = {"gate": str(run.gate), **told} if gated else told
        (self.instructions / f"{run_id}.json").write_text(json.dumps(instructions))
        conf = conf or {"suite": "own", "targets": [run.target]}
        self.airflow.trigger(run.dag_id, conf, run.run_id)
        return run

    def wait(
        self,
        condition: Callable[[], T | None],
        what: str,
        seconds: float = PATIENCE_SECONDS,
        *,
        every: float = 0.2,
    ) -> T:
        """The condition's first true value; what does not answer meanwhile is asked again."""
        return wait_for(condition, what, seconds, every=every, asked_again=ASKED_AGAIN)

    def task(self, run: Run, task_id: str = TASK) -> dict[str, Any] | None:
        """The run's only instance of a task, once it is expanded."""
        for task in self.airflow.instances(run.dag_id, run.run_id, task_id):
            if task_id != TASK or task["map_index"] >= 0:
                return task
        return None

    def wait_for_task(
        self, run: Run, *states: str, task_id: str = TASK, every: float = 0.2
    ) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            task = self.task(run, task_id)
            return task if task and task["state"] in states else None

        what = f"{'/'.join(states)} of {task_id} in {run.run_id}"
        return self.wait(reached, what, every=every)

    def jobs(self, run: Run) -> list[dict[str, Any]]:
        """The run's Batch jobs, the oldest first, found as an operator would: by name and tag."""
        queues = [queue["jobQueueArn"] for queue in self.batch.describe_job_queues()["jobQueues"]]
        listed = list_jobs(self.batch, queues, job_prefix(self.config, run.target))
        described = describe_jobs(self.batch, [job["jobId"] for job in listed]).values()
        ours = [job for job in described if job["tags"].get(RUN_TAG) == slug(run.run_id)]
        return sorted(ours, key=lambda job: job["createdAt"])

    def wait_for_job(self, run: Run, *states: str, but: str | None = None) -> dict[str, Any]:
        """The run's newest job, in one of these states, once it is another than `but`."""

        def reached() -> dict[str, Any] | None:
            jobs = [job for job in self.jobs(run)[-1:] if job["jobId"] != but]
            return jobs[0] if jobs and jobs[0]["status"] in states else None

        return self.wait(reached, f"{'/'.join(states)} job of {run.run_id}")

    def wait_until_watched(self, run: Run) -> dict[str, Any]:
        """The job that runs while its task waits in the triggerer."""
        # Behind its gate it stays so, and Airflow has other work than to be asked.
        self.wait_for_task(run, "deferred", every=1)
        return self.wait_for_job(run, "RUNNING")

    def wait_for_pid(self, job_id: str) -> int:
        """The process of a job's command."""
        return self.wait(lambda: self.pids_of_job(job_id), f"process of job {job_id}")[0]

    def wait_for_address(self, job_id: str, port: int) -> str:
        """Where a process of a job's commands listens at this port."""

        def found() -> str | None:
            for pid in self.pids_of_job(job_id):
                with suppress(psutil.Error):
                    if addresses := listening(psutil.Process(pid), port):
                        return addresses[0]
            return None

        return self.wait(found, f"port {port} of job {job_id}", every=0.05)

    def store(self, run: Run) -> RunStore:
        return RunStore(self.s3, self.config.bucket, run.run_id)

    def documents(self, run: Run) -> list[ResultDocument]:
        """What the run's jobs left in the bucket, by their attempts."""
        store = self.store(run)
        read = map(parse_document, map(store.read, store.keys(f"raw/{store.name}/")))
        return sorted(read, key=lambda document: document.job_attempt)

    def replace_document(self, run: Run) -> None:
        """Put another valid document of its job in the place of the run's only one."""
        store = self.store(run)
        (key,), (document,) = store.keys(f"raw/{store.name}/"), self.documents(run)
        store.put(key, document.model_copy(update={"total_seconds": 0.002}).to_json())

    def wait_for_documents(self, run: Run, count: int) -> None:
        self.wait(lambda: len(self.documents(run)) >= count, f"document of {run.run_id}")

    def log_lines(self, job: Mapping[str, Any]) -> list[str]:
        """What the job's last attempt has written so far."""
        job = self.batch.describe_jobs(jobs=[job["jobId"]])["jobs"][0]
        events = self.logs.get_log_events(
            logGroupName=self.config.log_group,
            logStreamName=job["container"]["logStreamName"],
            startFromHead=True,
        )["events"]
        return [event["message"] for event in events]

    def alerts(self, run: Run) -> int:
        """Messages of changes that lead to the run's report; not one that only says what failed."""
        with self._reading:
            self._messages += self._inbox.alerts()
        folder = self.store(run).prefix
        texts = [message["Message"] for message in self._messages]
        return sum(folder in text and ": failed.\n" not in text for text in texts)

    def finish(self, run: Run, *, open_gates: bool = True) -> Run:
        """Wait for the run's end, with its gates open unless its job is to be ended in time."""
        if open_gates:
            run.open()
            run.linger.touch()
        self._wait_for_end(run.dag_id, run.run_id)
        run.ended = time.monotonic()
        if run.dag_id == DAG_LAYERED:
            self._await_layers_end(run)
        return run

    def finish_all(self, runs: Mapping[str, Run]) -> dict[str, Run]:
        return {point: self.finish(run) for point, run in runs.items()}

    def cancel(self, run: Run) -> None:
        """Mark the run failed, and note the tasks that ends."""
        before = self._tasks(run, AT_WORK)
        self.airflow.cancel(run.dag_id, run.run_id)
        run.marked = frozenset(before & self._tasks(run, ("failed",)))

    def go_on(self, run: Run) -> None:
        """Clear what failed or was skipped, and the tasks of the layer, which that needs."""
        tasks = self.airflow.task_instances(run.dag_id, run.run_id)
        ended = {str(task["task_id"]) for task in tasks if task["state"] != "success"}
        again = sorted({*ended, STAND_UP, COLLAPSE})
        self.airflow.clear_tasks(run.dag_id, run.run_id, again, reset_dag_runs=True)

    def _tasks(self, run: Run, states: Collection[str]) -> set[str]:
        tasks = self.airflow.task_instances(run.dag_id, run.run_id)
        return {task["task_id"] for task in tasks if task["state"] in states}

    def _await_layers_end(self, run: Run) -> None:
        """Let all come to rest; what is left is the leak guard's."""
        self.wait(
            lambda: not self._tasks(run, AT_WORK),
            f"end of the tasks of {run.run_id}",
            every=1,
        )
        with suppress(TimeoutError):
            self.wait(lambda: not self.layer.left(), "end of the layer", LAYER_GRACE_SECONDS)
            return
        run.guarded = True
        guard = f"guard-of-{run.run_id}"
        self.airflow.trigger(DAG_GUARD, {"grace_minutes": 0}, guard)
        self._wait_for_end(DAG_GUARD, guard)
        with suppress(TimeoutError):
            self.wait(lambda: not self.layer.left(), "end of the layer", LAYER_GRACE_SECONDS)

    def _wait_for_end(self, dag_id: str, run_id: str) -> None:
        self.wait(
            lambda: self.airflow.state(dag_id, run_id) in ("success", "failed"),
            f"end of {run_id}",
            every=1,
        )

    def send_pending(self, run_id: str) -> None:
        """Run the DAG that sends what did not arrive."""
        self.airflow.trigger(DAG_SEND, {}, run_id)
        self.finish(Run(run_id, DAG_SEND, "", self.instructions / "none", self.instructions / "no"))

    # Components

    def wait_for_worker(self, task: Mapping[str, Any]) -> tuple[int, int]:
        """Process ids of the executor's worker and of the task runner that it forked."""

        def reached() -> tuple[int, int] | None:
            for title, pid, parent in self._workers():
                # A title has the room of its process's arguments: a long one loses its end.
                if str(task["id"]).startswith(title.removeprefix(WORKER)):
                    return parent, pid
            return None

        return self.wait(reached, f"runner of {task['task_id']}")

    def executor_pids(self) -> list[int]:
        """All of this stack's LocalExecutor's workers."""
        found = {pid: parent for title, pid, parent in self._workers() if EXECUTOR in title}
        # A task runner bears its worker's title until it has begun.
        return [pid for pid, parent in found.items() if parent not in found]

    def _workers(self) -> list[tuple[str, int, int]]:
        """This stack's workers and task runners: title, process id, parent's id."""
        found = []
        for process in psutil.process_iter():
            try:
                title = " ".join(process.cmdline()).strip()
                ours = process.environ().get("AIRFLOW_HOME") == str(self.stack.airflow.home)
                if ours and title.startswith(WORKER):
                    found.append((title, process.pid, process.ppid()))
            except psutil.Error:
                continue
        return found

    def kill_component(self, name: str) -> None:
        self.stack.processes.kill(name)

    def restart_component(self, name: str) -> None:
        if name == CLOUD:
            self.stack.start_cloud()
            return
        self.stack.airflow.start_component(name, self.stack.processes, ROOT)
        self.stack.airflow.wait_until_healthy(self.stack.processes)


def sigkill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
