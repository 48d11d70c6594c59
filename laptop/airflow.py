"""Airflow on one machine: its four components, and a client for its REST API."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import tenacity

from laptop import TARGETS
from laptop.errors import LaptopError
from laptop.private_files import make_private, write_private
from laptop.processes import Processes

USER = "admin"
DATABASE = "airflow.db"
# Twelve times as long as a cold start on an idle machine of two cores: others may be three times
# slower, and busy. A program that ends is reported at once.
HEALTH_SECONDS = 360
# A busy machine takes longer than Airflow's 30 s for importing a DAG, and 50 s for the whole file.
IMPORT_SECONDS = 120
FILE_SECONDS = IMPORT_SECONDS + 20
IMPORTED_FROM = ("plugins", "job_container", "laptop/airflow_settings")
# How long a component waits for another's lock on SQLite. The API server also writes in its event
# loop; a long wait there could block the very request that holds the lock, so its clients retry
# instead.
LOCK_SECONDS = 60
API_SERVER_LOCK_SECONDS = 1
# Beside an Airflow of equal priority, a job on two cores took 1.2 to 2.6 s instead of 1.1 to 1.2.
# Tests set 0, as their Airflows share the machine with other tests.
NICE = int(os.environ.get("BATCHMARK_AIRFLOW_NICE", "10"))
COMPONENTS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}


@dataclass(frozen=True)
class Airflow:
    """An Airflow installation: address, login, and the folder with its database and logs."""

    home: Path
    port: int
    dags: Path
    schedules: bool
    own_jobs: Mapping[str, Any] = field(default_factory=dict)  # offered in the benchmark's form
    variables: str = "/airflow/variables"  # names of the SSM parameters that become its variables
    password: str = field(default_factory=lambda: secrets.token_urlsafe(9))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kept_password(self) -> str | None:
        """Return the password that an earlier start saved in `home`, or None if it saved none."""
        try:
            return str(json.loads(self._passwords.read_text())[USER])
        except (OSError, ValueError, KeyError):
            return None

    @property
    def _passwords(self) -> Path:
        return self.home / "passwords.json"

    def environment(self, root: Path, aws: Mapping[str, str]) -> dict[str, str]:
        """Return Airflow's settings, except its database, as variables; airflow.cfg is ignored."""
        axes = {name: {"axis": job.get("axis")} for name, job in self.own_jobs.items()}
        ssm = {
            "connections_prefix": None,
            "config_prefix": None,
            "variables_prefix": self.variables,
            "region_name": aws["AWS_DEFAULT_REGION"],
            "endpoint_url": aws.get("AWS_ENDPOINT_URL"),
        }
        return {
            "AIRFLOW_HOME": str(self.home),
            "PYTHONPATH": ":".join(str(root / folder) for folder in IMPORTED_FROM),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "8",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": str(IMPORT_SECONDS),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(24),
            "AIRFLOW__SECRETS__BACKEND": (
                "airflow.providers.amazon.aws.secrets.systems_manager"
                ".SystemsManagerParameterStoreBackend"
            ),
            "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps(ssm),
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": str(self.schedules),
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": str(FILE_SECONDS),
            # The default of 30 s would disturb measurements; a changed file is still read at once.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # Silences warnings about Airflow's own use of a library, in each task's log.
            "PYTHONWARNINGS": "ignore:GitWildMatchPattern:DeprecationWarning",
            "BATCHMARK_DEFAULT_SUITE": "smoke",
            "BATCHMARK_TARGETS": ",".join(TARGETS),
            **({"BATCHMARK_OWN_JOBS": json.dumps(axes)} if axes else {}),
        }

    def migrate(self, processes: Processes, root: Path) -> None:
        """Create or upgrade the metadata database, and set the only user's password."""
        make_private(self.home)
        write_private(self._passwords, json.dumps({USER: self.password}))
        (self.home / DATABASE).touch(mode=0o600)
        processes.run("airflow-migrate", _command("db", "migrate"), cwd=root)

    def start(self, processes: Processes, root: Path) -> None:
        for name in COMPONENTS:
            self.start_component(name, processes, root)

    def yield_to_jobs(self, processes: Processes) -> None:
        """Let jobs have the CPU first, so that Airflow's own work disturbs their times less."""
        for name in COMPONENTS if NICE else ():
            processes.lower_priority(name, NICE)

    def start_component(self, name: str, processes: Processes, root: Path) -> None:
        seconds = API_SERVER_LOCK_SECONDS if name == "api-server" else LOCK_SECONDS
        database = f"sqlite:///{self.home / DATABASE}?timeout={seconds}"
        processes.start(
            name,
            _command(*COMPONENTS[name]),
            cwd=root,
            env={"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database},
        )

    def wait_until_healthy(self, processes: Processes) -> None:
        deadline = time.monotonic() + HEALTH_SECONDS
        state: object = "no response yet"
        while time.monotonic() < deadline:
            processes.check()
            try:
                health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5).json()
            except (httpx.HTTPError, ValueError) as error:
                state = error
            else:
                state = {name: part and part["status"] for name, part in health.items()}
                if set(state.values()) == {"healthy"}:
                    return
            time.sleep(0.5)
        raise LaptopError(
            f"Airflow is not healthy after {HEALTH_SECONDS} s ({state}); "
            f"see {processes.folder / 'logs'}"
        )


class AirflowClient:
    """A client (and context manager) for the Airflow REST API calls that a benchmark run needs."""

    def __init__(self, airflow: Airflow) -> None:
        answer = httpx.post(
            f"{airflow.url}/auth/token",
            json={"username": USER, "password": airflow.password},
            timeout=30,
        )
        answer.raise_for_status()
        token = answer.json()["access_token"]
        self._http = httpx.Client(
            base_url=f"{airflow.url}/api/v2",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=30,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def wait_for_dag(self, dag_id: str, seconds: float = HEALTH_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not self._http.get(f"/dags/{dag_id}").is_success:
            for error in self._get("/importErrors")["import_errors"]:
                raise LaptopError(
                    f"Airflow can't load {error['filename']}:\n{error['stack_trace']}"
                )
            if time.monotonic() > deadline:
                raise LaptopError(f"Airflow did not load the DAG {dag_id} within {seconds:.0f} s")
            time.sleep(0.5)

    def unpause(self, dag_id: str) -> None:
        self.change("PATCH", f"/dags/{dag_id}", {"is_paused": False}).raise_for_status()

    def trigger(self, dag_id: str, conf: Mapping[str, Any], run_id: str | None = None) -> str:
        """Trigger a DAG run and return its id, which Airflow generates unless `run_id` is given.

        Raises:
            LaptopError: Airflow did not create the run.
        """
        answer = self.change(
            "POST",
            f"/dags/{dag_id}/dagRuns",
            {"logical_date": None, "dag_run_id": run_id, "conf": conf},
        )
        if answer.is_error:
            raise LaptopError(f"Airflow rejected a run of {dag_id}: {answer.text}")
        return str(answer.json()["dag_run_id"])

    def state(self, dag_id: str, run_id: str) -> str:
        return str(self.dag_run(dag_id, run_id)["state"])

    def dag_run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return Airflow's record of a run, with `state`, `start_date`, `end_date` and more."""
        return self._get(f"/dags/{dag_id}/dagRuns/{run_id}")

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return all of a run's task instances; mapped ones are separate entries."""
        found: list[dict[str, Any]] = []
        while True:
            page = self._get(
                f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100&offset={len(found)}"
            )
            found += page["task_instances"]
            if len(found) >= page["total_entries"] or not page["task_instances"]:
                return found

    def task_log(self, task: Mapping[str, Any]) -> str:
        attempt = max(task["try_number"], 1)
        content = self._of_task(task, f"logs/{attempt}", "&full_content=true")["content"]
        return "\n".join(line if isinstance(line, str) else _log_line(line) for line in content)

    def _of_task(self, task: Mapping[str, Any], what: str, options: str = "") -> dict[str, Any]:
        return self._get(
            f"/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
            f"/{what}?map_index={task['map_index']}{options}"
        )

    def change(self, method: str, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send a request that makes a change; retry while the database is locked."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            answer = self._http.request(method, path, json=body)
            if answer.status_code != 500 or time.monotonic() > deadline:
                return answer
            time.sleep(0.5)

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(httpx.TimeoutException),
        stop=tenacity.stop_after_attempt(4),
        reraise=True,
    )
    def _get(self, path: str) -> dict[str, Any]:
        """Send a GET request, retrying if a busy Airflow times out; return the parsed response."""
        answer = self._http.get(path)
        answer.raise_for_status()
        result: dict[str, Any] = answer.json()
        return result


def _log_line(line: Mapping[str, Any]) -> str:
    """Format a structured log line as text: the event, then any exception's type and message."""
    errors = [f"{e['exc_type']}: {e['exc_value']}" for e in line.get("error_detail") or []]
    return "\n".join([str(line.get("event", "")), *errors])


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *arguments]
