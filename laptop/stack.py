"""A stack: the local cloud, the core Terraform stack applied to it, and Airflow."""

from __future__ import annotations

import configparser
import fcntl
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import httpx

from batchmark.core.prices import PRICES_FILE
from laptop.airflow import DATABASE, HEALTH_SECONDS, Airflow
from laptop.aws import REGION, AwsClients, publish_stand_in
from laptop.errors import LaptopError
from laptop.private_files import make_private, write_private
from laptop.processes import Processes, free_port
from laptop.terraform import Terraform

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TERRAFORM_DATA = BUILD / "terraform"
PROFILE = ROOT / "terraform" / "local.tfvars"
SHARING_PROFILE = ROOT / "terraform" / "local_sharing.tfvars"
MULTI_NODE_PROFILE = ROOT / "terraform" / "local_multi_node.tfvars"
MULTI_NODE = "multi_node"
STACKS = ROOT / "terraform" / "stacks"
# Requested by a job of PROFILE: it fills the pool, so that no two jobs measure at once.
VCPUS = 2
TRENDS_HTML = "trends.html"  # folder beside the report of the last of several runs

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ports:
    """The ports for Airflow and the local cloud; by default, free ports are chosen."""

    airflow: int = field(default_factory=free_port)
    cloud: int = field(default_factory=free_port)


class Stack:
    """The local cloud and Airflow of one folder; `stop` ends both even after a partial start.

    The local cloud records each call in the file `calls`, with the name of its caller: laptop,
    terraform, airflow or job.

    Args:
        schedules: whether DAGs run on their schedules, or only when triggered.
        profile: file with Terraform's inputs.
        beside: optional stacks in terraform/stacks, applied after the core stack, each with its
            local.tfvars.
        own_jobs: the Terraform input `own_jobs`; if given, each job starts in a copy of `job_dir`.
        jobs_file: the file that they are from; its folder is then `job_dir`.
        vcpus: size of the local cloud's pool.
        job_dir: folder with the code of jobs that run as processes.
        definition_dirs: folders for the jobs of some job definitions instead, by name.
        engine: whether jobs run as containers on the engine in DOCKER_HOST, or as processes.
        cloud_state: folder in which the local cloud keeps its state between starts; the login,
            Airflow's database and Terraform's state in `folder` are then kept too. Without it,
            none of these outlives the next start.
    """

    def __init__(
        self,
        folder: Path,
        ports: Ports,
        say: Say,
        *,
        schedules: bool = False,
        dags: Path = ROOT / "dags",
        profile: Path = PROFILE,
        beside: Sequence[str] = (),
        own_jobs: Mapping[str, Any] | None = None,
        jobs_file: Path | None = None,
        vcpus: int = VCPUS,
        job_dir: Path = ROOT / "job_container",
        definition_dirs: Mapping[str, Path] | None = None,
        engine: bool = False,
        cloud_state: Path | None = None,
    ) -> None:
        reach_loopback_directly()
        self.folder = folder.resolve()
        self.say = say
        self.endpoint = f"http://127.0.0.1:{ports.cloud}"
        home = self.folder / "airflow"
        self.airflow = Airflow(home, ports.airflow, dags, schedules, own_jobs or {})
        self.credentials = self.folder / "credentials"
        self._secret = secrets.token_urlsafe(30)
        if cloud_state is not None:
            self._take_up_login()
        self._cloud_port = ports.cloud
        self._profile, self._beside, self._own_jobs = profile, beside, own_jobs
        self._vcpus = vcpus
        self.jobs_file = jobs_file
        self._job_dir, self._engine = jobs_file.parent if jobs_file else job_dir, engine
        self._definition_dirs = definition_dirs or {}
        self._cloud_state = cloud_state
        self.aws = self.aws_as("laptop")
        for_airflow = self.aws_as("airflow")
        self.processes = Processes(
            self.folder,
            clean_environment() | for_airflow | self.airflow.environment(ROOT, for_airflow),
        )
        self.calls = self.folder / "logs" / "calls.jsonl"
        self.terraform = Terraform(
            ROOT / "terraform",
            data_dir=TERRAFORM_DATA,
            state=self.folder / "terraform.tfstate",
            env=self.processes.env | self.aws_as("terraform"),
            log=self.processes.log_of("terraform"),
        )

    def check(self) -> None:
        """Raise LaptopError if something that `start` needs is missing."""
        self.terraform.check()

    def start(self) -> None:
        """Start everything; return once Airflow is healthy and Terraform has finished applying."""
        self._forget_last_time()
        with ThreadPoolExecutor(1) as beside:
            try:
                self.start_cloud()
                applied = beside.submit(self.apply)
                self.start_airflow()
                if not applied.done():
                    self.say("Terraform: still applying")
                while not applied.done():
                    self.processes.check()
                    time.sleep(0.2)
                applied.result()
            except BaseException:
                self.stop()  # otherwise the executor would wait for Terraform to finish
                raise

    def aws_as(self, principal: str) -> dict[str, str]:
        """Return variables that make every AWS client use the local cloud as this principal."""
        return aws_environment(self.endpoint, principal, self._secret)

    def start_cloud(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self.credentials, credentials_file("laptop", self._secret))
        if self._cloud_state:
            make_private(self._cloud_state)
        self.processes.start(
            "local-cloud",
            [
                *(sys.executable, "-m", "local_cloud", "--port", str(self._cloud_port)),
                *("--vcpus", str(self._vcpus), "--gpus", "1", "--memory", "8192"),
                *("--jobs", "containers" if self._engine else "processes"),
                *("--job-dir", str(self._job_dir)),
                *(
                    f"--definition-dir={name}={path}"
                    for name, path in self._definition_dirs.items()
                ),
                *(("--copy-job-dir",) if self._own_jobs else ()),
                *("--prices", str(PRICES_FILE)),
                *("--record-calls", str(self.calls)),
                *("--credentials", str(self.credentials)),
                *(("--state", str(self._cloud_state)) if self._cloud_state else ()),
            ],
            cwd=ROOT,
            env={"PATH": path_of_jobs()},
        )
        deadline = time.monotonic() + HEALTH_SECONDS
        while time.monotonic() < deadline:
            self.processes.check()
            try:
                httpx.get(self.endpoint, timeout=5)
            except httpx.HTTPError:
                time.sleep(0.1)
            else:
                self.say(f"local cloud: listening on {self.endpoint}")
                return
        raise LaptopError(f"the local cloud did not respond within {HEALTH_SECONDS} s")

    def apply(self) -> None:
        """Apply the core stack, publish a stand-in for its job image, and apply optional stacks."""
        started = time.monotonic()
        image = apply_core_stack(self.terraform, self.say, self._profile, self._own_jobs)
        with closing(AwsClients(self.aws)) as aws:
            publish_stand_in(aws.client("ecr"), image)
        for name in self._beside:
            self.say(f"Terraform: applying the optional stack {name}")
            terraform = self.terraform_of(name)
            init_one_at_a_time(terraform)
            terraform.apply(var_file=STACKS / name / "local.tfvars")
        self.say(f"Terraform: applied in {time.monotonic() - started:.0f} s")

    def terraform_of(self, name: str) -> Terraform:
        """Return Terraform for an optional stack."""
        return Terraform(
            STACKS / name,
            data_dir=TERRAFORM_DATA / name,
            state=self.folder / f"terraform.tfstate.{name}",
            env=self.processes.env | self.aws_as("terraform"),
            log=self.processes.log_of(f"terraform-{name}"),
        )

    def start_airflow(self) -> None:
        started = time.monotonic()
        kept = (self.airflow.home / DATABASE).exists()
        what = "bringing its database up to date" if kept else "creating its database"
        self.say(f"Airflow: {what} and starting its components (about 60 s)")
        self.airflow.migrate(self.processes, ROOT)
        self.airflow.start(self.processes, ROOT)
        self.airflow.wait_until_healthy(self.processes)
        self.airflow.yield_to_jobs(self.processes)
        self.say(f"Airflow: healthy after {time.monotonic() - started:.0f} s at {self.airflow.url}")

    def stop(self) -> None:
        self.processes.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.say("stopping everything that was started")
            self.stop()
        except KeyboardInterrupt:  # laptop.__main__ ignores further interrupts
            self.stop()
            raise

    def _take_up_login(self) -> None:
        """Reuse the password and secret from the last start, if there was one."""
        if self.credentials.exists():
            kept = configparser.RawConfigParser()
            kept.read(self.credentials)
            self._secret = kept["default"]["aws_secret_access_key"]
        if password := self.airflow.kept_password():
            self.airflow = replace(self.airflow, password=password)

    def _forget_last_time(self) -> None:
        """Delete the last start's logs and, if the local cloud keeps no state, its other files.

        These are Airflow's folder, Terraform's state, and the last report, which could be mistaken
        for this run's. The folders raw/ and runs/ are kept.
        """
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        if self._cloud_state is None:
            shutil.rmtree(self.folder / "airflow", ignore_errors=True)
            for name in ("terraform.tfstate*", "report.*", TRENDS_HTML):
                for left in self.folder.glob(name):
                    left.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)


def apply_core_stack(
    terraform: Terraform,
    say: Say,
    profile: Path = PROFILE,
    own_jobs: Mapping[str, Any] | None = None,
) -> str:
    """Apply the core stack to the local cloud; return the image that its job definitions use.

    Raises:
        TerraformError: Terraform failed.
    """
    say("Terraform: applying the core stack to the local cloud (about 80 s)")
    init_one_at_a_time(terraform)
    terraform.apply(var_file=profile, variables={"own_jobs": own_jobs} if own_jobs else None)
    return str(terraform.outputs()["image"])


def init_one_at_a_time(terraform: Terraform) -> None:
    """Run `terraform init` if necessary, under a lock because all stacks share TERRAFORM_DATA."""
    TERRAFORM_DATA.mkdir(parents=True, exist_ok=True)
    with TERRAFORM_DATA.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        terraform.init_where_changed()


def path_of_jobs() -> str:
    """Return the PATH for jobs that run as processes.

    On it, `python` is the active virtual environment's or, if there is none, this interpreter.
    """
    path = os.environ.get("PATH", os.defpath)
    if os.environ.keys() & {"VIRTUAL_ENV", "CONDA_PREFIX"}:
        return path
    return f"{Path(sys.executable).parent}{os.pathsep}{path}"


def reach_loopback_directly() -> None:
    """Bypass HTTP proxies for loopback addresses in this process and those it starts."""
    for name in ("NO_PROXY", "no_proxy"):
        others = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join(dict.fromkeys([*others, "127.0.0.1", "localhost"]))


def credentials_file(principal: str, secret: str) -> str:
    """Return the content of an AWS credentials file that clients and the local cloud can read."""
    return f"[default]\naws_access_key_id = {principal}\naws_secret_access_key = {secret}\n"


def aws_environment(endpoint: str, principal: str, secret: str) -> dict[str, str]:
    """Return variables that make every AWS client use the local cloud and made-up credentials.

    The access key is the principal's name, so that recorded calls show their caller; the secret is
    the local cloud's.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": principal,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def clean_environment() -> dict[str, str]:
    """Return this process's environment without references to a real account or another Airflow."""
    dropped = ("AWS_", "AIRFLOW", "TF_VAR_", "TF_WORKSPACE", "PYTHONPATH")
    kept = ("AWS_CA_BUNDLE",)
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(dropped)
    }
