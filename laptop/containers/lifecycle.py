"""`make containers-up` and `make containers-down`: start and stop the deployment."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from laptop.airflow import USER
from laptop.containers import secret_files
from laptop.containers.cloud import Cloud
from laptop.containers.compose import (
    AIRFLOW,
    LOCAL_CLOUD,
    PROFILES,
    Compose,
    Deployment,
    engine_socket,
)
from laptop.containers.job_image import build_job_image
from laptop.errors import LaptopError
from laptop.processes import require_port
from laptop.session import Clock, exclusive
from laptop.stack import reach_loopback_directly

HEALTHY_SECONDS = 480  # above docker-compose.yaml's start_period and three failed checks: 7 min


def up(deployment: Deployment, *, build: bool = True) -> None:
    """Start or update all services, and wait until they are healthy.

    Raises:
        LaptopError: something is missing, a port is taken, or a service does not become healthy.
    """
    with locked(deployment):
        clock = Clock()
        compose = compose_for(deployment)
        local = deployment.profile == "local"
        cloud = Cloud(compose)
        secret_files.make_missing(
            deployment.secrets, database_is_there=compose.has_volume("postgres")
        )
        if local:
            cloud.terraform().check()
        _require_ports(compose)
        settings_are_ours = compose.write_settings()
        if build:
            _build(compose, clock)
        if not local:
            _end_local_cloud(compose)
        started = time.monotonic()
        with ThreadPoolExecutor(1) as beside:
            if local:
                compose("up", "--detach", "--wait", "--no-build", LOCAL_CLOUD)
                filled = beside.submit(cloud.fill, clock)
            wait_until_healthy(compose)
            clock.say(f"everything is healthy after {time.monotonic() - started:.0f} s")
            if local:
                filled.result()
    print(
        f"\nAirflow {deployment.url}, user {USER}, "
        f"password in {deployment.secrets / secret_files.PASSWORDS}\n"
        "Stop it with `make containers-down`; runs and results are kept."
    )
    if not settings_are_ours:
        print(
            f"{deployment.settings} is your own file, so it was left unchanged; `docker compose` "
            "reads it"
        )


def down(deployment: Deployment, *, delete_volumes: bool = False) -> None:
    """Stop and remove all containers and networks; keep the data unless `delete_volumes` is set."""
    with locked(deployment):
        clock = Clock()
        # Compose stops only services of the chosen profile, and `local` has all of them.
        compose = Compose(replace(deployment, profile="local"))
        compose.check()
        services = compose.services()
        compose("stop")
        # Jobs outlive a killed local cloud, and block the removal of their network.
        network = f"{deployment.project}_jobs"
        of_services = {record["ID"] for record in services.values()}
        on_network = compose.docker(
            "ps", "--all", "--quiet", "--no-trunc", "--filter", f"network={network}"
        ).split()
        if jobs := [container for container in on_network if container not in of_services]:
            compose.docker("rm", "--force", *jobs)
        compose("down", "--remove-orphans", *(["--volumes"] if delete_volumes else []))
        if delete_volumes:
            Cloud(compose).forget()
            shutil.rmtree(deployment.secrets, ignore_errors=True)
        clock.say("stopped" if services else "nothing was running")


def compose_for(deployment: Deployment) -> Compose:
    """Return a Compose with all variables that the services in the deployment's profile need.

    Raises:
        LaptopError: Docker, its engine or credentials are missing, or the profile is unknown.
    """
    if deployment.profile not in PROFILES:
        raise LaptopError(f"unknown profile {deployment.profile!r}: use {' or '.join(PROFILES)}")
    compose = Compose(deployment)
    compose.check()
    if deployment.profile == "local":
        compose.env.update(engine_socket(compose))
        return compose
    folder, user = secret_files.aws_folder(deployment.secrets, os.environ)
    compose.env.update(AWS_FOLDER=str(folder), AIRFLOW_USER=user)
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        # Access keys take precedence, and our credentials file has only this profile.
        compose.env.pop("AWS_PROFILE", None)
    if region := os.environ.get("AWS_REGION"):
        compose.env.setdefault("AWS_DEFAULT_REGION", region)
    return compose


def wait_until_healthy(compose: Compose) -> None:
    compose("up", "--detach", "--wait", "--wait-timeout", str(HEALTHY_SECONDS), "--no-build")


@contextmanager
def locked(deployment: Deployment) -> Iterator[None]:
    """Lock a deployment against other commands, and bypass proxies for loopback addresses."""
    reach_loopback_directly()
    deployment.folder.mkdir(parents=True, exist_ok=True)
    with exclusive(deployment.folder.resolve() / "containers-up"):
        yield


def _end_local_cloud(compose: Compose) -> None:
    """Remove a local cloud left by profile `local`, as it has access to the engine's socket."""
    if LOCAL_CLOUD in compose.services():
        local = Compose(replace(compose.deployment, profile="local"))
        local("rm", "--stop", "--force", LOCAL_CLOUD)


def _require_ports(compose: Compose) -> None:
    """Raise LaptopError if another program is using a port that a service needs to publish."""
    services = compose.services()
    deployment = compose.deployment
    wanted = {AIRFLOW[0]: (deployment.port, "Airflow", "PORT")}
    if deployment.profile == "local":
        wanted[LOCAL_CLOUD] = (deployment.cloud_port, "the local cloud", "CLOUD_PORT")
    for service, (port, what, setting) in wanted.items():
        if services.get(service, {}).get("State") != "running":
            require_port(port, what, f"make containers-up {setting}")


def _build(compose: Compose, clock: Clock) -> None:
    """Build the images, except for any that the user provides by name."""
    airflow = not compose.env.get("AIRFLOW_IMAGE")
    job = compose.deployment.profile == "local" and not compose.env.get("JOB_IMAGE")
    if airflow or job:
        clock.say(
            "building the images (this takes minutes the first time, seconds if nothing has "
            "changed)"
        )
    if airflow:
        compose("build", "--quiet", "airflow-migrate")
    if job:
        build_job_image(compose)
