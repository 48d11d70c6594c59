"""Drives `docker compose` with all that our docker-compose.yaml takes from outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from laptop.errors import LaptopError
from laptop.stack import ROOT

COMPOSE_FILE = ROOT / "docker-compose.yaml"
PROFILES = ("local", "aws")
# The local cloud's first; Airflow's, which hold no data of their own.
LOCAL_CLOUD = "local-cloud"
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
DEFAULT_SOCKET = "/var/run/docker.sock"
OLDEST_COMPOSE = (2, 24)
SETTINGS_BEGIN = "# Of the last `make containers-up`, for `docker compose` alone."
ERROR_LINES = 15


@dataclass(frozen=True)
class Deployment:
    """What tells one deployment from another on this machine.

    Args:
        folder: holds its `secrets/` and, for the local cloud, its `state/`.
    """

    project: str = "batchmark"
    profile: str = "local"
    port: int = 8080
    cloud_port: int = 5000
    folder: Path = ROOT / "containers"

    @property
    def secrets(self) -> Path:
        return self.folder.resolve() / "secrets"

    @property
    def state(self) -> Path:
        return self.folder.resolve() / "state"

    @property
    def settings(self) -> Path:
        """Where `docker compose` alone finds what it needs; in the project's folder by itself."""
        usual = Deployment.folder.resolve()
        return (ROOT if self.folder.resolve() == usual else self.folder.resolve()) / ".env"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.cloud_port}"


class Compose:
    """The containers, networks and volumes of one deployment."""

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
        """Raise LaptopError unless Docker, its Compose and its engine are there."""
        if shutil.which("docker") is None:
            raise LaptopError("docker is needed and not on the PATH: install Docker Engine first")
        oldest = ".".join(map(str, OLDEST_COMPOSE))
        try:
            seen = self._captured(["docker", "compose", "version", "--short"])
        except LaptopError as error:
            raise LaptopError(
                f"this docker has no Compose: install its plugin, {oldest} or newer"
            ) from error
        if tuple(map(int, re.findall(r"\d+", seen)[:2])) < OLDEST_COMPOSE:
            raise LaptopError(f"Docker Compose {oldest} or newer is needed, this is {seen.strip()}")
        self._captured(["docker", "version", "--format", "{{.Server.Version}}"])

    def __call__(self, *arguments: str) -> None:
        """Run `docker compose` and show what it says.

        Raises:
            LaptopError: it failed.
        """
        code = subprocess.run(
            [*self._command, *arguments], env=self.env, stdout=sys.stderr, check=False
        ).returncode
        if code:
            said = "".join(f"\n{line}" for line in self._of_failed_services())
            raise LaptopError(f"`docker compose {arguments[0]}` ended with code {code}{said}")

    def output(self, *arguments: str, into: IO[bytes] | None = None) -> str:
        """What `docker compose` writes to stdout, unless it goes into a file."""
        return self._captured([*self._command, *arguments], out=into)

    def feed(self, source: IO[bytes], *arguments: str) -> None:
        """Run `docker compose` with a file as its input."""
        self._captured([*self._command, *arguments], source=source)

    def docker(self, *arguments: str) -> str:
        """What `docker` writes to stdout."""
        return self._captured(["docker", *arguments])

    def write_settings(self) -> bool:
        """Keep what our files take from outside; a file that is not ours stays as it is."""
        path = self.deployment.settings
        if path.exists() and not path.read_text().startswith(SETTINGS_BEGIN):
            return False
        names = sorted(taken_from_outside() & self.env.keys())
        path.write_text("\n".join([SETTINGS_BEGIN, *(f"{n}='{self.env[n]}'" for n in names), ""]))
        return True

    def services(self) -> dict[str, dict[str, Any]]:
        """Compose's record of each container, by service; those that have ended, too."""
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
            # Its own, never those of another deployment of this checkout.
            *("--env-file", str(settings if settings.exists() else os.devnull)),
        ]

    def _captured(
        self,
        command: Sequence[str],
        *,
        out: IO[bytes] | None = None,
        source: IO[bytes] | None = None,
    ) -> str:
        done = subprocess.run(
            command,
            env=self.env,
            stdin=source or subprocess.DEVNULL,
            stdout=out or subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-ERROR_LINES:]
            called = " ".join(word for word in command if word not in self._command[2:])
            raise LaptopError(
                f"`{called[:60]}` ended with code {done.returncode}: " + "\n".join(said)
            )
        return (done.stdout or b"").decode()

    def _of_failed_services(self) -> list[str]:
        """The last lines of what did not start."""
        lines = []
        try:
            for name, record in self.services().items():
                failed = record["State"] == "restarting" or record["ExitCode"]
                if failed or record["Health"] == "unhealthy":
                    lines.append(f"{name} is {record['Status']}; its last lines:")
                    lines.append(self.output("logs", "--tail", str(ERROR_LINES), name).rstrip())
        except LaptopError:
            pass  # what went wrong first is what matters
        return lines


def version() -> str:
    """The project's, which is also the image's tag."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def as_published(deployment: Deployment) -> Deployment:
    """With the ports that its running containers have.

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


def taken_from_outside() -> set[str]:
    """The variables that our docker-compose.yaml and the files it names ask for."""
    files = (COMPOSE_FILE, *(ROOT / "containers" / f"{profile}.env" for profile in PROFILES))
    asked = re.compile(r"\$\{(\w+)|^(\w+)$", re.MULTILINE)
    found = [name for file in files for pair in asked.findall(file.read_text()) for name in pair]
    return {"COMPOSE_PROJECT_NAME", *filter(None, found)}


def engine_socket(compose: Compose) -> dict[str, str]:
    """The engine's socket and the group that may use it, for the local cloud.

    Raises:
        LaptopError: the engine is on another machine, or the socket that is named is not there.
    """
    about = compose.docker("info", "--format", "{{.OperatingSystem}} {{.SecurityOptions}}")
    in_virtual_machine = sys.platform != "linux" or "Docker Desktop" in about
    socket = compose.env.get("ENGINE_SOCKET") or _socket_of_context(compose)
    if in_virtual_machine:
        # A socket outside can't be mounted; the one in there is root's.
        socket, group = compose.env.get("ENGINE_SOCKET") or DEFAULT_SOCKET, 0
    elif "name=rootless" in about:
        group = 0  # in its containers the user that the engine runs as is root
    else:
        try:
            group = os.stat(socket).st_gid
        except OSError as error:
            raise LaptopError(f"the engine's socket {socket}: {error.strerror}") from error
    return {"ENGINE_SOCKET": socket, "ENGINE_GROUP": compose.env.get("ENGINE_GROUP", str(group))}


def _socket_of_context(compose: Compose) -> str:
    host = compose.docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
    scheme, _, socket = host.partition("://")
    if scheme != "unix":
        raise LaptopError(
            f"the engine is at {host}, and the local cloud needs one whose socket is a file of "
            "this machine: unset DOCKER_HOST, or `docker context use default`"
        )
    return socket
