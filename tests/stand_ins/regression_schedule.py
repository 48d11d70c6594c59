"""A schedule of runs through the tasks that find regressions, with a bucket in memory."""

import functools
from copy import deepcopy
from datetime import timedelta

import boto3
import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowSkipException

from batchmark.aws.result_bucket import CHANGES, COLLECTED, PLAN, RunStore
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.detection import DetectorSettings
from batchmark.changes.records import RunChanges
from batchmark.core.run import CollectedRun, LostJob, RunPlan
from batchmark.history import store as history_store
from batchmark.history.parquet import decode
from batchmark.history.store import HistoryStore, run_prices
from batchmark.orchestration import run_history
from batchmark.orchestration.tasks import alerts, regressions
from batchmark.runs.collected_runs import readable_run, store_run
from batchmark.runs.plans.planning import plan_jobs
from tests.builders.installations import configured, own_types
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    build_job,
    build_row,
    put_documents,
)
from tests.stand_ins.bucket import MemoryBucket

GPU, CPU = "g5.xlarge", "c5.2xlarge"
ENVIRONMENTS = {GPU: GPU_ENVIRONMENT, CPU: CPU_ENVIRONMENT}
SECONDS = {GPU: 0.01, CPU: 0.2}


# Each look of a schedule reads all files of those before it; no run is old enough to be left out.
decode_once = functools.cache(decode)


def decode_whole(body, location, schema, *, since=None, run_ids=None):
    if run_ids is not None:
        return decode(body, location, schema, since=since, run_ids=run_ids)
    assert since is None or f"{since:%Y-%m}" < location.month
    return decode_once(body, location, schema)


class Instance:
    """A task instance of a run whose look for suspects ended in this state."""

    dag_id = "gpu_cpu_benchmark"

    def __init__(self, state):
        self.state = state

    def xcom_pull(self, **_):
        return []

    def get_task_states(self, *, run_ids, **_):
        return {run_id: {"find_suspects": self.state} for run_id in run_ids}


class Schedule:
    """Runs of two targets, one row each, whose times are given as factors of SECONDS.

    Attributes:
        quiet: as of `quiet_history`; None where it is made.
    """

    def __init__(self, config, bucket, monkeypatch, quiet=None):
        self.config, self.bucket, self.quiet = config, bucket, quiet
        self.number = 0
        self.fresh = {}  # factors of the next run's fresh jobs, by target
        self._noise = np.random.default_rng(6)
        monkeypatch.setattr(run_history, "collect_run", self._collect)

    @property
    def run_id(self):
        return f"run-{self.number:03}"

    @property
    def context(self):
        params = {"reruns": self.reruns, "max_cost_usd": self.max_cost_usd}
        return {"run_id": self.run_id, "params": params, "ti": None}

    reruns = True
    max_cost_usd = 50
    lost_repeat = None  # the fresh job that leaves nothing

    @property
    def store(self):
        return RunStore.of(self.config, self.run_id)

    def _job(self, planned, factor):
        noise = np.exp(0.004 * self._noise.standard_normal())
        samples = (SECONDS[planned.target] * factor * noise,) * 8
        environment = ENVIRONMENTS[planned.target]
        if factor > 1.05:
            environment = environment.model_copy(update={"driver_version": "590.1"})
        job = build_job(
            planned.target, [build_row(samples)], repeat=planned.repeat, environment=environment
        )
        days = timedelta(days=7 * self.number)
        job_id = f"{self.run_id}-{planned.target}-{planned.repeat}"
        document = job.document.model_copy(
            update={
                "run_id": self.run_id,
                "job_id": job_id,
                "started_at": job.document.started_at + days,
                "finished_at": job.document.finished_at + days,
            }
        )
        moments = {name: getattr(job, name) + days for name in ("started_at", "stopped_at")}
        update = {"document": document, "planned": planned, "job_id": job_id}
        return job.model_copy(update=update | moments)

    def _collect(self, store, batch, logs, *, run_id, planned, job_ids, config, **_):
        found = [one for one in planned if one.repeat != self.lost_repeat]
        lost = [one for one in planned if one not in found]
        run = CollectedRun(
            run_id=run_id,
            jobs=tuple(self._job(one, self.fresh.get(one.target, 1.0)) for one in found),
            lost=tuple(LostJob(planned=one, job_id=None, reason="its host went") for one in lost),
        )
        put_documents(store, run)
        return run

    def measure(self, **factors):
        """A run up to its collected results; factors by 'gpu' and 'cpu'."""
        self.number += 1
        by_target = {GPU: factors.get("gpu", 1.0), CPU: factors.get("cpu", 1.0)}
        self.fresh = dict(by_target)
        planned = plan_jobs(self.config, run_name=self.run_id, suite="blog", targets=[GPU, CPU])
        plan = RunPlan(jobs=tuple(planned), dag_id="gpu_cpu_benchmark")
        self.store.write(PLAN, plan.model_dump_json())
        run = CollectedRun(
            run_id=self.run_id, jobs=tuple(self._job(one, by_target[one.target]) for one in planned)
        )
        prices = run_prices(self.store, self.config.region, run)
        HistoryStore.of(self.config).append(run, prices, self.store.name)
        self.measured = run

    def keep(self):
        """Store what the run measured, which only the tasks behind it read."""
        put_documents(self.store, self.measured)
        store_run(self.store, self.measured)

    @property
    def collected(self):
        return readable_run(self.store, self.store.prefix + COLLECTED)

    def look(self):
        """The tasks behind it; what was submitted in each round, and the run's changes."""
        if self.store.read_if_there(self.store.prefix + COLLECTED) is None:
            self.keep()
        context = self.context

        context["ti"] = Instance("success")
        once = regressions.find_suspects(context, self.store.prefix + COLLECTED)
        try:
            twice = regressions.find_agreeing(context)
        except AirflowSkipException:
            twice = []
        key = regressions.detect_regressions(context, self.store.prefix + COLLECTED)
        alerts.open_alerts(context, key)
        return len(once), len(twice), RunChanges.model_validate_json(self.store.read(key))

    def run(self, **factors):
        self.measure(**factors)
        return self.look()

    @property
    def alerts(self):
        return AlertStore(self.store).alerts()


def new_schedule(monkeypatch, quiet=None):
    config = configured(targets=own_types(**{GPU: {}, CPU: {}}))
    bucket = MemoryBucket(config.bucket, config.region)
    # Nothing else is asked of AWS: what fresh jobs leave is made up.
    clients = {"s3": bucket, "batch": None, "logs": None}
    monkeypatch.setattr(boto3, "client", lambda name, **_: clients[name])
    monkeypatch.setattr(history_store, "decode", decode_whole)
    for module in (run_history, alerts):
        monkeypatch.setattr(module, "load_config", lambda: config)
    monkeypatch.setattr(alerts, "load_alert_settings", AlertSettings)
    monkeypatch.setattr(run_history, "load_detector_settings", DetectorSettings)
    return Schedule(config, bucket, monkeypatch, quiet)


@pytest.fixture(scope="session")
def quiet_history():
    """By number of runs, what a schedule of as many quiet runs has in its bucket, and its noise."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        schedule = new_schedule(monkeypatch)
        found = {}
        for _ in range(20):
            schedule.measure()
            found[schedule.number] = dict(schedule.bucket.objects), deepcopy(schedule._noise)
        return found


@pytest.fixture
def schedule(monkeypatch, quiet_history):
    return new_schedule(monkeypatch, quiet_history)


def quiet_runs(schedule, count):
    """Begin with so many runs at the usual times."""
    objects, noise = schedule.quiet[count]
    schedule.bucket.objects, schedule._noise = dict(objects), deepcopy(noise)
    schedule.number = count


def left(schedule):
    """The history, the alerts, and what the run says has changed."""
    store = schedule.store
    folders = ("history/", "alerts/", f"runs/{store.name}/{CHANGES}")
    return {key: store.read(key) for folder in folders for key in store.keys(folder)}
