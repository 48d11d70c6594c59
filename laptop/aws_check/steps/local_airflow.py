"""Runs DAGs in the account from a local Airflow that has only its role's permissions."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import boto3
import httpx
from pydantic import BaseModel

from batchmark.aws.batch_targets import DENIED, NO_ANSWER, error_code
from batchmark.aws.result_bucket import ENVIRONMENT_JSON, PRICES, REPORT_JSON, RunStore
from batchmark.checks.leak_records import GuardReport
from batchmark.checks.records import EnvironmentCheck
from batchmark.core.formatting import count
from batchmark.core.kinds import OWN_JOB_DAG
from batchmark.core.names import slug
from batchmark.core.prices import AWS_SOURCE, PriceTable
from batchmark.runs.spending import run_spending
from batchmark_job.result.document import ResultDocument
from laptop.airflow import Airflow, AirflowClient
from laptop.aws_check.check import Check
from laptop.aws_check.inputs import NAME, VARIABLES
from laptop.aws_check.step import NotCheckedError, Seen, StepError
from laptop.aws_check.steps.airflow_role import AirflowRole
from laptop.aws_check.steps.clean_up import end_jobs
from laptop.aws_check.steps.image import OWN_JOB
from laptop.demo import DAG_ID, TaskStates, end_of_log
from laptop.processes import Processes, free_port, stop_all
from laptop.stack import ROOT, clean_environment

CHECK_SECONDS = 900  # time limit of a DAG that submits nothing
RUN_SECONDS = 5400  # judgment: jobs may wait for an instance, be reclaimed and start On-Demand
# Budget of each run on AWS: above estimate.py's figure, even if prices are twice those of
# us-east-1.
MAX_COST_USD = 2.0
FAILURE_CHARACTERS = 1500
GUARD_FOLDER = "guard/"
REFUSED = "refused"


class ForbiddenCall(NamedTuple):
    """A call that Airflow's role must be denied; if allowed, it creates nothing permanent."""

    service: str
    operation: str
    asked: dict[str, Any]
    # error codes that mean "allowed": the requested resource does not exist
    code_if_allowed: str | None


FORBIDDEN_CALLS = {
    "reading another parameter": ForbiddenCall(
        "ssm", "get_parameter", {"Name": f"/{NAME}/another"}, "ParameterNotFound"
    ),
    "writing a job's results": ForbiddenCall(
        "s3",
        "put_object",
        {"Key": "raw/check/c5.2xlarge/smoke/1/check.json", "Body": b""},
        None,
    ),
    "submitting to another queue": ForbiddenCall(
        "batch",
        "submit_job",
        {"jobName": NAME, "jobQueue": "another", "jobDefinition": "another"},
        "ClientException",
    ),
}

Found = TypeVar("Found", bound=BaseModel)


class Run(NamedTuple):
    """A DAG run: its id, the cost of its jobs in USD, and the last log lines of failed tasks."""

    id: str
    usd: float
    failure: str


class LocalAirflow:
    """A check's local Airflow instance and the steps that use it; `start` must come first."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._role = AirflowRole(check)

    @cached_property
    def _airflow(self) -> Airflow:
        return Airflow(
            self._check.folder / "airflow",
            free_port(),
            ROOT / "dags",
            schedules=False,
            own_jobs={OWN_JOB: {}},
            variables=VARIABLES,
        )

    @cached_property
    def _processes(self) -> Processes:
        role = self._role.environment
        env = clean_environment() | role | self._airflow.environment(ROOT, role)
        return Processes(self._check.folder, env)

    def start(self) -> Seen:
        """Start Airflow from scratch, after stopping and deleting any instance started earlier."""
        stop_all(self._check.folder)
        shutil.rmtree(self._airflow.home, ignore_errors=True)
        self._role.renew()
        self._check.say("Airflow: creating its database and starting its components")
        self._airflow.migrate(self._processes, ROOT)
        self._airflow.start(self._processes, ROOT)
        self._airflow.wait_until_healthy(self._processes)
        return Seen("healthy, with the role in terraform output airflow_role_arn")

    def environment_check(self) -> Seen:
        run = self._run("environment_check", {}, CHECK_SECONDS)
        store = self._store(run.id)
        found = store.record(EnvironmentCheck, store.prefix + ENVIRONMENT_JSON)
        if run.failure or found is None:
            raise StepError((found and found.failures()) or run.failure)
        unread = [f"{one.name}: {one.seen}" for one in found.of("not checked")]
        if unread and self._check.account.on_aws:
            raise StepError(f"{found.summary}: {' '.join(unread)}")
        return Seen(found.summary)

    def benchmark(self) -> Seen:
        run, told = self.measure(DAG_ID, {"suite": "smoke", "reruns": False})
        return Seen(told, run.usd)

    def own_job(self) -> Seen:
        """Run own_job_benchmark; raise StepError unless every job in the run passes its check."""
        asked = {"job": OWN_JOB, "repeats": 1, "reruns": False}
        run, told = self.measure(OWN_JOB_DAG, asked)
        documents = self.documents(run)
        checks = [one.own_job.check for one in documents if one.own_job]
        passed = sum(check.kind == "command" and check.passed for check in checks)
        told = f"{told}; its check passed in {passed} of {count(len(documents), 'job')}"
        if passed == 0 or passed < len(documents):
            raise StepError(told, run.usd)
        return Seen(told, run.usd)

    def leak_guard(self) -> Seen:
        run = self._run("leak_guard", {}, CHECK_SECONDS)
        if run.failure:
            raise StepError(run.failure)
        store = self._store(run.id)
        ending = f"/{slug(run.id)}.json"
        key = next(key for key in store.keys(GUARD_FOLDER) if key.endswith(ending))
        found = self._read(GuardReport, key)
        if found.of("leaked") or found.unread:
            raise StepError(f"{found.summary} {found.alarm()} {' '.join(found.unread)}".strip())
        return Seen(found.summary)

    def rights(self) -> Seen:
        """Check that AWS refused none of the DAG runs' calls, but refuses three forbidden calls."""
        self.refuse_denied()
        if not self._check.account.on_aws:
            raise NotCheckedError("a local cloud does not enforce policies")
        session = self._role.session()
        answers = {what: self._answer(session, what) for what in FORBIDDEN_CALLS}
        others = [f"{what}: {told}" for what, told in answers.items() if told != REFUSED]
        if others:
            raise StepError("; ".join(others))
        return Seen(
            f"AWS refused none of the runs' calls, but refused {', '.join(FORBIDDEN_CALLS)}"
        )

    def refuse_denied(self, usd: float = 0.0) -> None:
        """Raise StepError, with the runs' cost in USD, if the logs show that AWS refused a call."""
        denied = [
            line.strip()
            for log in (self._airflow.home / "logs").rglob("*.log")
            for line in log.read_text(errors="replace").splitlines()
            if any(code in line for code in DENIED if not code.isdigit())
        ]
        if denied:
            raise StepError(f"AWS refused a call: {denied[0][:FAILURE_CHARACTERS]}", usd)

    def _answer(self, session: boto3.Session, what: str) -> str:
        """Make a forbidden call; return REFUSED, or a description of what happened instead."""
        beyond = FORBIDDEN_CALLS[what]
        bucket = {"Bucket": self._check.config.bucket} if beyond.service == "s3" else {}
        try:
            getattr(session.client(beyond.service), beyond.operation)(**beyond.asked, **bucket)
        except NO_ANSWER as error:
            code = error_code(error)
            if code in DENIED:
                return REFUSED
            if code != beyond.code_if_allowed:
                return f"neither allowed nor refused: {error}"
        return "not refused"

    def _run(self, dag_id: str, conf: Mapping[str, Any], seconds: float) -> Run:
        """Run a DAG to completion."""
        with AirflowClient(self._airflow) as client:
            client.wait_for_dag(dag_id)
            client.unpause(dag_id)
            run_id = client.trigger(dag_id, conf)
            tasks = TaskStates(client, dag_id, run_id)

            def ended() -> str | None:
                self._processes.check()
                self._role.renew()
                for line in tasks.ended():
                    self._check.say(line)
                state = client.state(dag_id, run_id)
                return state if state in ("success", "failed") else None

            state = None
            try:
                state = self._check.wait(ended, seconds, lambda: f"run {run_id} has not ended")
            finally:
                if state is None:
                    self._end(client, dag_id, run_id)
            failure = end_of_log(tasks.failures(), FAILURE_CHARACTERS) if state == "failed" else ""
        return Run(run_id, self._usd(run_id), failure)

    def _end(self, client: AirflowClient, dag_id: str, run_id: str) -> None:
        """Mark an unfinished run as failed so that it starts no more jobs; end the check's jobs."""
        with suppress(httpx.HTTPError):
            client.change("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", {"state": "failed"})
        with suppress(*NO_ANSWER):
            end_jobs(self._check)

    def measure(self, dag_id: str, conf: Mapping[str, Any]) -> tuple[Run, str]:
        """Run a DAG that submits jobs; return the run, and a line about its report and prices.

        Raises:
            StepError: the run failed, wrote no report or, on AWS, didn't use AWS's prices.
        """
        most = MAX_COST_USD if self._check.account.on_aws else None
        run = self._run(dag_id, {**conf, "max_cost_usd": most}, RUN_SECONDS)
        store = self._store(run.id)
        if run.failure:
            raise StepError(run.failure, run.usd)
        if store.read_if_there(store.prefix + REPORT_JSON) is None:
            raise StepError(f"there is no report for {run.id} in the bucket", run.usd)
        prices = self._read(PriceTable, store.prefix + PRICES)
        told = f"report in the bucket, with prices dated {prices.as_of} from {prices.source}"
        if self._check.account.on_aws and prices.source != AWS_SOURCE:
            raise StepError(f"{told}: {' '.join(prices.notes)}", run.usd)
        return run, told

    def documents(self, run: Run) -> list[ResultDocument]:
        """Return the result documents of the run's jobs."""
        store = self._store(run.id)
        keys = store.keys(f"raw/{store.name}/")
        return [self._read(ResultDocument, key) for key in keys if key.endswith(".json")]

    def _usd(self, run_id: str) -> float:
        """Return the cost of the run's jobs in USD, or 0 if it is unknown or the cloud is local."""
        store = self._store(run_id)
        key = store.plan().spending_key if self._check.account.on_aws else None
        spent = run_spending(store, key) if key else None
        return float(spent.exact_usd) if spent else 0.0

    def _store(self, run_id: str) -> RunStore:
        return RunStore(self._check.clients("s3"), self._check.config.bucket, run_id)

    def _read(self, model: type[Found], key: str) -> Found:
        found = self._store("").record(model, key)
        if found is None:
            raise StepError(f"{key} is missing from the bucket or can't be read")
        return found
