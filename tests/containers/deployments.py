"""A deployment for tests: how it is started, watched, disturbed and asked."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import docker
import httpx

from batchmark.aws.result_bucket import RunStore
from laptop.airflow import USER, Airflow
from laptop.aws import AwsClients
from laptop.containers import lifecycle
from laptop.containers.compose import AIRFLOW, Compose, Deployment
from laptop.containers.secret_files import PASSWORDS
from laptop.demo import DAG_ID
from laptop.stack import ROOT
from tests.containers.host_processes import kill
from tests.e2e.stacks import jobs
from tests.user_client import UserClient
from tests.waiting import PATIENCE_SECONDS, wait_for

T = TypeVar("T")

RUN_SECONDS = 1500  # each of its services is killed meanwhile
ASKED_AGAIN = (httpx.HTTPError,)
LABEL = "com.docker.compose"


@dataclass(frozen=True)
class Running:
    """A deployment that is up, and the engine that it runs on."""

    deployment: Deployment
    engine: docker.DockerClient

    @cached_property
    def compose(self) -> Compose:
        return lifecycle.compose_for(self.deployment)

    @contextmanager
    def airflow(self) -> Iterator[UserClient]:
        """A client that has just logged in, as a user with the password from the file."""
        passwords = json.loads((self.deployment.secrets / PASSWORDS).read_text())
        found = Airflow(
            self.deployment.folder,
            self.deployment.port,
            ROOT / "dags",
            schedules=True,
            password=passwords[USER],
        )
        with UserClient(found) as client:
            yield client

    @contextmanager
    def aws(self) -> Iterator[AwsClients]:
        with closing(AwsClients(self.deployment.aws)) as clients:
            yield clients

    def trigger(self, run_id: str, **conf: Any) -> str:
        with self.airflow() as airflow:
            airflow.wait_for_dag(DAG_ID)
            airflow.unpause(DAG_ID)
            return airflow.trigger(DAG_ID, conf, run_id)

    def state(self, run_id: str) -> str:
        with self.airflow() as airflow:
            return airflow.state(DAG_ID, run_id)

    def tasks(self, run_id: str) -> list[dict[str, Any]]:
        with self.airflow() as airflow:
            return airflow.task_instances(DAG_ID, run_id)

    def wait_for_end(self, run_id: str) -> str:
        ends = ("success", "failed")
        return self.wait(
            lambda: state if (state := self.state(run_id)) in ends else None,
            f"end of {run_id}",
            RUN_SECONDS,
        )

    def wait_for_task(self, run_id: str, state: str) -> dict[str, Any]:
        return self.wait(
            lambda: next((task for task in self.tasks(run_id) if task["state"] == state), None),
            f"{state} task of {run_id}",
        )

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that the local cloud knows."""
        with self.aws() as aws:
            return jobs(aws)

    def job_containers(self) -> list[Any]:
        on_network = {"network": f"{self.deployment.project}_jobs"}
        found = self.engine.containers.list(filters=on_network)
        return [container for container in found if f"{LABEL}.service" not in container.labels]

    def store(self, aws: AwsClients, run_id: str) -> RunStore:
        return RunStore(aws.client("s3"), aws.config().bucket, run_id)

    def container(self, service: str) -> Any:
        """By its labels: `docker compose` takes ten times as long."""
        wanted = {"project": self.deployment.project, "service": service}
        labels = [f"{LABEL}.{name}={value}" for name, value in wanted.items()]
        (found,) = self.engine.containers.list(all=True, filters={"label": labels})
        return found

    def health(self, service: str) -> str:
        return str(self.container(service).attrs["State"]["Health"]["Status"])

    def kill(self, *services: str) -> None:
        """SIGKILL the main processes of services, as the kernel does when memory is short.

        `docker kill` would not do: the engine takes it for a wish, and restarts nothing. A service
        that ends by itself meanwhile, as others of its deployment are down, is killed once it runs
        again.
        """
        for service, state in [(service, self._kill_one(service)) for service in services]:
            self.wait(
                lambda service=service, state=state: (
                    self.container(service).attrs["State"]["StartedAt"] != state["StartedAt"]
                ),
                f"restart of {service}",
            )

    def _kill_one(self, service: str) -> dict[str, Any]:
        return self.wait(lambda: self._killed(service), f"process of {service}")

    def _killed(self, service: str) -> dict[str, Any] | None:
        """What it was when its main process was killed; None if it had none."""
        state: dict[str, Any] = self.container(service).attrs["State"]
        with_python = self.container(AIRFLOW[0]).attrs["Config"]["Image"]
        found = state["Pid"] != 0 and kill(self.engine, state["Pid"], with_python)
        return state if found else None

    def wait_until_healed(self, service: str) -> None:
        self.wait(lambda: self.health(service) == "healthy", f"healthy {service}")

    def wait(
        self, condition: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS
    ) -> T:
        """The condition's first true value; what does not answer meanwhile is asked again."""
        return wait_for(condition, what, seconds, every=1, asked_again=ASKED_AGAIN)


@contextmanager
def deployed(deployment: Deployment, engine: docker.DockerClient) -> Iterator[Running]:
    """A deployment of the images as they are; nothing of it is left afterwards."""
    try:
        lifecycle.up(deployment, build=False)
        yield Running(deployment, engine)
    finally:
        lifecycle.down(deployment, delete_volumes=True)
