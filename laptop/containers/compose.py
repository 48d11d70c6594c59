"""Runs `docker compose` with all the variables that our docker-compose.yaml expects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeAlias

from laptop.containers.secret_files import cloud_secret
from laptop.errors import LaptopError
from laptop.stack import ROOT, aws_environment

COMPOSE_FILE = ROOT / "docker-compose.yaml"
PROFILES = ("local", "aws")
LOCAL_CLOUD = "local-cloud"
# Services without data of their own; the first one publishes Airflow's port.
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
DEFAULT_SOCKET = "/var/run/docker.sock"
OLDEST_COMPOSE = (2, 24)
# First line of the file that we write and may overwrite.
SETTINGS_BEGIN = "# Written by the last `make containers-up`, for direct use of `docker compose`."
ERROR_LINES = 15
NOTHING, PIPE = subprocess.DEVNULL, subprocess.PIPE
File: TypeAlias = IO[bytes] | int  # as in subprocess


@dataclass(frozen=True)
class Deployment:
    """The settings that distinguish a deployment from others on this machine."""

    project: str = "batchmark"
    profile: str = "local"
    port: int = 8080
    cloud_port: int = 5000
    folder: Path = ROOT / "containers"  # holds `secrets/` and, with the local cloud, `state/`

    @property
    def secrets(self) -> Path:
        return self.folder.resolve() / "secrets"

    @property
    def state(self) -> Path:
        return self.folder.resolve() / "state"

    @property
    def settings(self) -> Path:
        """The env file; without options, `docker compose` finds only the default deployment's."""
        folder = self.folder.resolve()
        return (ROOT if folder == Deployment.folder.resolve() else folder) / ".env"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        """The local cloud's address on this machine."""
        return f"http://127.0.0.1:{self.cloud_port}"

    @property
    def aws(self) -> Mapping[str, str]:
        """Variables that point AWS clients on this machine to the local cloud."""
        return self.aws_as("laptop")

    def aws_as(self, principal: str) -> dict[str, str]:
        """Return AWS variables for a principal; raise LaptopError if the cloud has no secret."""
        return aws_environment(self.endpoint, principal, cloud_secret(self.secrets))


class Compose:
    """Manages one deployment's containers, networks and volumes with `docker compose`."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.env = {
            **os.environ,
            "COMPOSE_PROFILES": deployment.profile,
            "COMPOSE_PROJECT_NAME": deployment.project,
            "AIRFLOW_PORT": str(deployment.port),
            "LOCAL_CLOUD_PORT": str(deployment.cloud_port),
            "SECRETS_FOLDER": str(deployment.secrets),
            "BATCHMARK_VERSION": version(),
        }

    def check(self) -> None:
        """Raise LaptopError unless Docker, a recent enough Compose and an engine are available."""
        if shutil.which("docker") is None:
            raise LaptopError("docker is not on the PATH: install Docker Engine first")
        oldest = ".".join(map(str, OLDEST_COMPOSE))
        try:
            seen = self._captured(["docker", "compose", "version", "--short"])
        except LaptopError as error:
            raise LaptopError(
                f"Docker has no Compose plugin here: install Docker Compose {oldest} or newer"
            ) from error
        if tuple(map(int, re.findall(r"\d+", seen)[:2])) < OLDEST_COMPOSE:
            raise LaptopError(
                f"Docker Compose {oldest} or newer is required, but {seen.strip()} is installed"
            )
        self._captured(["docker", "version", "--format", "{{.Server.Version}}"])

    def __call__(self, *arguments: str) -> None:
        """Run `docker compose` and show its output.

        Raises:
            LaptopError: the command failed.
        """
        code = subprocess.run(
            [*self._command, *arguments], env=self.env, stdout=sys.stderr, check=False
        ).returncode
        if code:
            said = "".join(f"\n{line}" for line in self._logs_of_failed_services())
            raise LaptopError(f"`docker compose {arguments[0]}` failed with exit code {code}{said}")

    def output(self, *arguments: str, stdin: File = NOTHING, stdout: File = PIPE) -> str:
        """Run `docker compose`; return its standard output, or "" if that goes to a file."""
        return self._captured([*self._command, *arguments], stdin, stdout)

    def docker(self, *arguments: str) -> str:
        return self._captured(["docker", *arguments])

    def write_settings(self) -> bool:
        """Write the env file for `docker compose`; return False if the user has their own file."""
        path = self.deployment.settings
        if path.exists() and not path.read_text().startswith(SETTINGS_BEGIN):
            return False
        names = sorted(external_variables() & self.env.keys())
        path.write_text("\n".join([SETTINGS_BEGIN, *(f"{n}='{self.env[n]}'" for n in names), ""]))
        return True

    def services(self) -> dict[str, dict[str, Any]]:
        """Return Compose's records of all containers, including stopped ones, keyed by service."""
        found = self.output("ps", "--all", "--no-trunc", "--format", "json").splitlines()
        return {record["Service"]: record for record in map(json.loads, found)}

    def is_running(self, service: str) -> bool:
        return self.services().get(service, {}).get("State") == "running"

    def has_volume(self, name: str) -> bool:
        wanted = f"{self.deployment.project}_{name}"
        return wanted in self.docker("volume", "ls", "--format", "{{.Name}}").splitlines()

    @property
    def _command(self) -> list[str]:
        settings = self.deployment.settings
        return [
            *("docker", "compose", "--file", str(COMPOSE_FILE), "--project-directory", str(ROOT)),
            # Never read the settings of another deployment in this checkout.
            *("--env-file", str(settings if settings.exists() else os.devnull)),
        ]

    def _captured(self, command: Sequence[str], stdin: File = NOTHING, stdout: File = PIPE) -> str:
        done = subprocess.run(
            command, env=self.env, stdin=stdin, stdout=stdout, stderr=PIPE, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-ERROR_LINES:]
            called = " ".join(word for word in command if word not in self._command[2:])
            raise LaptopError(
                f"`{called[:60]}` failed with exit code {done.returncode}: " + "\n".join(said)
            )
        return (done.stdout or b"").decode()

    def _logs_of_failed_services(self) -> list[str]:
        """Return the last log lines of each service that has failed or is unhealthy."""
        lines = []
        with suppress(LaptopError):  # report the first error
            for name, record in self.services().items():
                failed = record["State"] == "restarting" or record["ExitCode"]
                if failed or record["Health"] == "unhealthy":
                    lines.append(f"{name} is {record['Status']}; its last lines:")
                    lines.append(self.output("logs", "--tail", str(ERROR_LINES), name).rstrip())
        return lines


def version() -> str:
    """Return the project's version, which is also the tag of its images."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def with_published_ports(deployment: Deployment) -> Deployment:
    """Return the deployment with the ports that its running containers publish.

    Raises:
        LaptopError: Docker or its engine is missing.
    """
    compose = Compose(deployment)
    compose.check()
    ports = {
        service: publisher["PublishedPort"]
        for service, record in compose.services().items()
        for publisher in record.get("Publishers") or []
        if publisher["PublishedPort"]
    }
    return replace(
        deployment,
        port=ports.get(AIRFLOW[0], deployment.port),
        cloud_port=ports.get(LOCAL_CLOUD, deployment.cloud_port),
    )


def external_variables() -> set[str]:
    """Return the names of the variables that our docker-compose.yaml and its env files expect."""
    files = (COMPOSE_FILE, *(ROOT / "containers" / f"{profile}.env" for profile in PROFILES))
    asked = re.compile(r"\$\{(\w+)|^(\w+)$", re.MULTILINE)
    found = [name for file in files for pair in asked.findall(file.read_text()) for name in pair]
    return {"COMPOSE_PROJECT_NAME", *filter(None, found)}


def engine_socket(compose: Compose) -> dict[str, str]:
    """Return variables with the engine's socket, which the local cloud mounts, and its group.

    Raises:
        LaptopError: the engine is on another machine, or its socket is missing.
    """
    about = compose.docker("info", "--format", "{{.OperatingSystem}} {{.SecurityOptions}}")
    in_virtual_machine = sys.platform != "linux" or "Docker Desktop" in about
    socket = compose.env.get("ENGINE_SOCKET") or _socket_of_context(compose)
    if in_virtual_machine:
        # Only the virtual machine's own socket can be mounted, and it belongs to root.
        socket, group = compose.env.get("ENGINE_SOCKET") or DEFAULT_SOCKET, 0
    elif "name=rootless" in about:
        group = 0  # the engine's user is root in its containers
    else:
        try:
            group = os.stat(socket).st_gid
        except OSError as error:
            raise LaptopError(f"can't use the socket {socket}: {error.strerror}") from error
    return {"ENGINE_SOCKET": socket, "ENGINE_GROUP": compose.env.get("ENGINE_GROUP", str(group))}


def _socket_of_context(compose: Compose) -> str:
    host = compose.docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
    scheme, _, socket = host.partition("://")
    if scheme != "unix":
        raise LaptopError(
            f"the Docker engine is at {host}, but the local cloud needs one with a socket on this "
            "machine: unset DOCKER_HOST, or run `docker context use default`"
        )
    return socket
