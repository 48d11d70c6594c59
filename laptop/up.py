"""`make up` and `make down`: run the demo's stack and keep its measurements between starts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from batchmark.core.formatting import shortened_list
from batchmark.core.kinds import OWN_JOB_DAG, title
from laptop.airflow import USER, AirflowClient
from laptop.aws import REGION, AwsClients
from laptop.demo import DAG_ID
from laptop.errors import LaptopError
from laptop.own_jobs.jobs_file import (
    for_laptop,
    read_own_jobs,
    refuse_large_folder,
    refuse_what_cannot_start,
)
from laptop.private_files import write_private
from laptop.processes import free_port, processes_of, require_port, stop_all
from laptop.session import Clock, exclusive, refuse_beside_others
from laptop.stack import ROOT, Ports, Stack

LOGIN = "login.json"
SHELL = "aws.env"  # script for a shell that should reach the local cloud
JOBS = "jobs_file"  # holds the path of the file with the user's own jobs
KEPT = "cloud"  # the local cloud's state; Airflow's database and Terraform's state are beside it
CLOUD_PORT = "cloud_port"  # links in earlier reports point there
# Credentials that AWS clients would prefer to those in the file.
BEFORE_THE_FILE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
)
WAYS_OUT = "to delete them, run `make down STATE=delete` or `make clean`"


def up(port: int, folder: Path, jobs_file: Path | None = None) -> None:
    """Start the stack, with Airflow on `port`, unless it is already running; leave it running.

    The user's own jobs come from `jobs_file` or, without it, from the last start's file; each job
    runs in a copy of that file's folder.

    Raises:
        LaptopError: another stack is running, the port is taken, an earlier start was interrupted,
            or the file can't be used.
    """
    with exclusive(folder):
        if processes_of(folder):
            if not (folder / LOGIN).exists():
                raise LaptopError(
                    f"an earlier start was interrupted; see {folder / 'logs'}, then run `make down`"
                )
            print(
                "already up"
                + ("; to use another JOBS= file, run `make down` first" if jobs_file else "")
            )
            print(_next_steps(folder))
            return
        refuse_beside_others(folder)
        require_port(port, "Airflow", "make up PORT")
        clock = Clock()
        if jobs_file is None:
            jobs_file = _last_jobs_file(folder, clock)
        of_jobs = _with_own_jobs(jobs_file) if jobs_file else {}
        ports = Ports(airflow=port, cloud=_cloud_port(folder))
        stack = Stack(
            folder,
            ports,
            clock.say,
            schedules=True,
            cloud_state=folder / KEPT,
            **of_jobs,
        )
        stack.check()
        if (folder / KEPT).exists():
            clock.say(f"continuing with the runs and results in {folder}: {WAYS_OUT}")
        login = folder / LOGIN
        login.unlink(missing_ok=True)
        try:
            stack.start()
            with AirflowClient(stack.airflow) as airflow:
                airflow.wait_for_dag(DAG_ID)
            found = {
                "Airflow": stack.airflow.url,
                "user": USER,
                "password": stack.airflow.password,
                "bucket": _bucket_with_example(stack),
                "jobs": [*of_jobs.get("own_jobs", ())],
            }
            if jobs_file:
                (folder / JOBS).write_text(str(jobs_file.resolve()))
            (folder / SHELL).write_text(_for_a_shell(stack))
            write_private(login, json.dumps(found))
        except BaseException:
            clock.say("stopping everything that was started")
            stack.stop()
            raise
    print(f"\n{_next_steps(folder)}")


def down(folder: Path, *, delete_state: bool = False) -> None:
    """Stop the stack; keep its runs, results and login for the next `up`, or delete them."""
    ended = stop_all(folder)
    for name in (LOGIN, SHELL):
        (folder / name).unlink(missing_ok=True)
    print(f"stopped {ended} processes" if ended else "nothing was running")
    if not (folder / KEPT).exists():
        return
    if delete_state:
        shutil.rmtree(folder)
        print(f"deleted {folder}, including all runs and results")
    else:
        print(f"runs, results and login are kept in {folder}: {WAYS_OUT}")


def _last_jobs_file(folder: Path, clock: Clock) -> Path | None:
    """Return the last start's jobs file, or None if there was none or it no longer exists."""
    try:
        file = Path((folder / JOBS).read_text())
    except OSError:
        return None
    there = file.is_file()
    what = "as in the last start" if there else "skipped, as the file no longer exists"
    clock.say(f"your own jobs from {file}: {what}; choose another file with JOBS=")
    return file if there else None


def _with_own_jobs(file: Path) -> dict[str, Any]:
    """Return the Stack arguments for running all of the user's own jobs in a file."""
    folder = file.resolve().parent
    refuse_large_folder(folder)
    jobs = read_own_jobs(file)
    refuse_what_cannot_start(jobs, folder)
    own_jobs = {name: for_laptop(job) for name, job in jobs.items()}
    return {"own_jobs": own_jobs, "jobs_file": file.resolve()}


def _bucket_with_example(stack: Stack) -> str:
    """Add published GPU figures to the history as an example run; return the bucket's name."""
    # Imported late: they load libraries for a second.
    from batchmark.history.imports.file import published_file
    from batchmark.history.store import HistoryStore

    with closing(AwsClients(stack.aws)) as aws:
        bucket = aws.config().bucket
        HistoryStore(aws.client("s3"), bucket).append_import(published_file())
    return bucket


def _for_a_shell(stack: Stack) -> str:
    """Return shell commands that point AWS clients to the local cloud, not to another account."""
    variables = {
        "AWS_ENDPOINT_URL": stack.endpoint,
        "AWS_SHARED_CREDENTIALS_FILE": str(stack.credentials),
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
    }
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join([f"unset {' '.join(BEFORE_THE_FILE)}", *exports, ""])


def _cloud_port(folder: Path) -> int:
    """Return the local cloud's last port, or a new one if that is unknown or not free."""
    file = folder / CLOUD_PORT
    try:
        port = int(file.read_text())
        require_port(port, "the local cloud")
    except (OSError, ValueError, LaptopError):
        port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(str(port))
    return port


def _dags(jobs: Sequence[str]) -> str:
    """Return the Airflow titles of the DAGs that the user is advised to trigger."""
    of_jobs = [f"{title(OWN_JOB_DAG)} for {shortened_list(jobs)}"] if jobs else []
    return ", or ".join([*of_jobs, title(DAG_ID)])


def _next_steps(folder: Path) -> str:
    """Describe what the user can do next, one step per line."""
    login = json.loads((folder / LOGIN).read_text())
    dags = _dags(login.get("jobs", ()))
    shell, command = (
        shlex.quote(os.path.relpath(path))
        for path in (folder / SHELL, ROOT / ".venv" / "bin" / "batchmark")
    )
    return "\n".join(
        [
            f"Airflow: {login['Airflow']}, user {login['user']}, password {login['password']}",
            f"In Airflow, trigger {dags}; reports are under Batchmark in the navigation",
            f"History: (. {shell} && {command} history show --bucket {login['bucket']})",
            "`make down` stops it and keeps all measurements",
        ]
    )
