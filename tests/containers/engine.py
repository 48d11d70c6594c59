"""A Docker engine for tests: the one that answers here, or our own for as long as they run."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from tests.containers.debian import Packages, Unavailable, run
from tests.containers.own_engine import OwnEngine
from tests.waiting import PATIENCE_SECONDS

NEEDED_GB = 12


@dataclass(frozen=True)
class Engine:
    """An engine that answers.

    Args:
        host: as DOCKER_HOST has it.
        env: what programs that use it need in their environment.
        packages: Debian's packages beside it; None where the engine is not ours.
    """

    host: str
    env: dict[str, str]
    packages: Packages | None = None

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.host, timeout=PATIENCE_SECONDS)


@contextmanager
def open_engine(folder: Path, say: Callable[[str], None]) -> Iterator[Engine]:
    """The engine that answers, or one of our own below `folder`, which the context's end removes.

    Raises:
        Unavailable: there is none, and none can be had.
    """
    if reached := answering_engine():
        say(f"using the engine at {reached.host}")
        yield reached
        return
    own = OwnEngine(folder, say)
    require_possible(folder)
    with turn(folder, say):
        own.packages.fetch()
        try:
            env = own.start()
            yield Engine(env["DOCKER_HOST"], env, own.packages)
        finally:
            own.stop()


@contextmanager
def turn(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One engine at a time in a folder; whoever ends, however, gives the lock back."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another test run has its engine here: waiting until it ends")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def answering_engine() -> Engine | None:
    """The engine that Docker's command would use here, if it answers.

    Raises:
        Unavailable: it answers, but the programs to use it are not here.
    """
    endpoint = ("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    try:
        host = run(["docker", *endpoint]).stdout.strip()
        run(["docker", "version"])
    except (OSError, subprocess.CalledProcessError) as error:
        if host := os.environ.get("DOCKER_HOST"):
            raise Unavailable(f"`docker version` gets no answer at DOCKER_HOST={host}") from error
        return None
    for words in (("buildx", "version"), ("compose", "version")):
        try:
            run(["docker", *words])
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(
                f"an engine answers at {host}, but `docker {words[0]}` does not work"
            ) from error
    return Engine(host, {"DOCKER_HOST": host})


def require_possible(folder: Path) -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Unavailable("no Docker engine answers, and only root on Linux can start one")
    if shutil.which("ip") is None:
        raise Unavailable(
            "no Docker engine answers, and one of our own needs the program `ip` (iproute2)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    if free < NEEDED_GB:
        raise Unavailable(
            f"no Docker engine answers, and one of our own needs {NEEDED_GB} GB of disk: "
            f"{free:.0f} GB are free at {folder}"
        )
