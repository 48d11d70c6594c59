"""`make containers-up` and `make containers-down`: the system as people deploy it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from batchmark.exceptions import TerraformError
from laptop import secret_files
from laptop.airflow import USER
from laptop.cloud_state import CloudState
from laptop.compose import (
    AIRFLOW,
    LOCAL_CLOUD,
    PROFILES,
    Compose,
    Deployment,
    engine_socket,
    version,
)
from laptop.errors import LaptopError
from laptop.job_image import job_image
from laptop.processes import require_port
from laptop.session import Clock, exclusive
from laptop.stack import ROOT, reach_loopback_directly

JOB_IMAGE_TARGET = "cpu"
HEALTHY_SECONDS = 300


def up(deployment: Deployment, *, build: bool = True) -> float:
    """Start all services; where they run, bring them up to date.

    Returns:
        The seconds that the services took to be healthy.

    Raises:
        LaptopError: something is missing, a port is taken, or a service does not get healthy.
    """
    with at_work(deployment):
        clock = Clock()
        compose = prepared(deployment)
        local = deployment.profile == "local"
        state = CloudState(compose)
        if local:
            _require_terraform(state)
        _require_ports(compose)
        secret_files.make_missing(
            deployment.secrets, database_is_there=compose.has_volume("postgres")
        )
        kept = compose.write_settings()
        if build:
            _build(compose, clock)
        if not local:
            _end_local_cloud(compose)
        started = time.monotonic()
        with ThreadPoolExecutor(1) as beside:
            if local:
                compose("up", "--detach", "--wait", "--no-build", LOCAL_CLOUD)
                filled = beside.submit(state.fill, clock)
            wait_until_healthy(compose)
            seconds = time.monotonic() - started
            clock.say(f"everything is healthy, after {seconds:.0f} s")
            if local:
                filled.result()
    print(
        f"\nAirflow {deployment.url}, user {USER}, "
        f"password in {deployment.secrets / secret_files.PASSWORDS}\n"
        "Stop it with `make containers-down`; runs and results stay."
    )
    if not kept:
        print(f"{deployment.settings} is yours and stays as it is: `docker compose` alone reads it")
    return seconds


def down(deployment: Deployment, *, delete_volumes: bool = False) -> None:
    """Stop and remove all containers and networks. Runs and results stay, unless told otherwise."""
    with at_work(deployment):
        clock = Clock()
        # Compose leaves alone what a profile has that is not chosen, and `local` has all.
        compose = Compose(replace(deployment, profile="local"))
        compose.check()
        state = CloudState(compose)
        services = compose.services()
        compose("stop")
        # Jobs of a local cloud that was killed outlive it, and keep their network from going.
        network = f"{deployment.project}_jobs"
        known = {record["ID"] for record in services.values()}
        jobs = compose.docker(
            "ps", "--all", "--quiet", "--no-trunc", "--filter", f"network={network}"
        ).split()
        if orphans := [job for job in jobs if job not in known]:
            compose.docker("rm", "--force", *orphans)
        compose("down", "--remove-orphans", *(["--volumes"] if delete_volumes else []))
        if delete_volumes:
            state.forget()
            shutil.rmtree(deployment.secrets, ignore_errors=True)
        clock.say("stopped" if services else "nothing was running")


def prepared(deployment: Deployment) -> Compose:
    """`docker compose` with all that the services of this profile need.

    Raises:
        LaptopError: Docker, its engine, or credentials are missing.
    """
    if deployment.profile not in PROFILES:
        raise LaptopError(f"unknown profile {deployment.profile!r}: {' or '.join(PROFILES)}")
    compose = Compose(deployment)
    compose.check()
    if deployment.profile == "local":
        compose.env.update(engine_socket(compose))
        return compose
    folder, user = secret_files.aws_folder(deployment.secrets, os.environ)
    compose.env.update(AWS_FOLDER=str(folder), AIRFLOW_USER=user)
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        compose.env.pop("AWS_PROFILE", None)  # keys win over it, and their file has no other
    if region := os.environ.get("AWS_REGION"):
        compose.env.setdefault("AWS_DEFAULT_REGION", region)
    return compose


def wait_until_healthy(compose: Compose) -> None:
    compose("up", "--detach", "--wait", "--wait-timeout", str(HEALTHY_SECONDS), "--no-build")


@contextmanager
def at_work(deployment: Deployment) -> Iterator[None]:
    """Hold a deployment against a second command, and reach it past any proxy."""
    reach_loopback_directly()
    deployment.folder.mkdir(parents=True, exist_ok=True)
    with exclusive(deployment.folder.resolve() / "containers-up"):
        yield


def _end_local_cloud(compose: Compose) -> None:
    """End one that ran until now: it holds the engine's socket. Its volume stays."""
    if LOCAL_CLOUD in compose.services():
        local = Compose(replace(compose.deployment, profile="local"))
        local("rm", "--stop", "--force", LOCAL_CLOUD)


def _require_terraform(state: CloudState) -> None:
    try:
        state.terraform().check()
    except TerraformError as error:
        raise LaptopError(str(error)) from error


def _require_ports(compose: Compose) -> None:
    """Raise for a port that something else listens on."""
    services = compose.services()
    deployment = compose.deployment
    wanted = {AIRFLOW[0]: (deployment.port, "Airflow")}
    if deployment.profile == "local":
        wanted[LOCAL_CLOUD] = (deployment.cloud_port, "the local cloud")
    for service, (port, what) in wanted.items():
        if services.get(service, {}).get("State") != "running":
            require_port(port, what)


def _build(compose: Compose, clock: Clock) -> None:
    """Build what the caller has no image of their own for, whose name is not ours to give."""
    airflow = not compose.env.get("AIRFLOW_IMAGE")
    job = compose.deployment.profile == "local" and not compose.env.get("JOB_IMAGE")
    if not (airflow or job):
        return
    clock.say("building the images (minutes the first time, seconds when nothing changed)")
    if airflow:
        compose("build", "--quiet", "airflow-migrate")
    if job:
        base, wheels = compose.env.get("PYTHON_IMAGE"), compose.env.get("WHEELS")
        compose.docker(
            *("build", "--quiet", "--target", JOB_IMAGE_TARGET),
            *(("--build-arg", f"PYTHON_IMAGE={base}") if base else ()),
            *("--build-arg", f"VERSION={version()}"),
            *(("--build-context", f"wheels={wheels}") if wheels else ()),
            *("--tag", job_image(compose), str(ROOT / "job_container")),
        )
