"""A Docker engine for tests: the one that answers here, or our own for as long as they run."""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import psutil
from docker.errors import DockerException

from laptop.processes import MARKER, processes_of, stop_all
from tests.containers.debian import Packages, Unavailable, run
from tests.containers.host_network import (
    FORWARDING,
    Firewall,
    add_bridge,
    bridges,
    bridges_in,
    free_network,
    mtu_outwards,
    networks_in_use,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEEDED_GB = 12
START_SECONDS = 90
STOP_SECONDS = 60
SIGN_OF_LIFE_SECONDS = 30
# An abstract socket's name: whoever ends, however, gives it back, and no file stays.
TURN = "\0batchmark-engine"
DRIVERS = ("overlay2", "vfs")
DEFAULT_SOCKET = "unix:///var/run/docker.sock"
# Engines make these and leave them; ours removes those that were not there before.
MADE_BY_ENGINES = tuple(
    map(
        Path,
        ("/run/docker/plugins", "/run/docker", "/run/containerd/s", "/run/containerd", "/run/runc"),
    )
)


@dataclass(frozen=True)
class Engine:
    """An engine that answers.

    Args:
        host: as DOCKER_HOST has it.
        env: what programs that use it need in their environment.
        gateway: this machine's address, as containers on the default bridge see it.
        packages: Debian's packages beside it; None where the engine is not ours.
    """

    host: str
    env: dict[str, str]
    gateway: str
    packages: Packages | None = None

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.host, timeout=120)


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
    with turn(say):
        own.packages.fetch()
        try:
            yield own.start()
        finally:
            own.stop()


@contextmanager
def turn(say: Callable[[str], None]) -> Iterator[None]:
    """One engine of ours at a time on a machine: two would flush each other's rules."""
    with socket.socket(socket.AF_UNIX) as name:
        for waited in itertools.count():
            try:
                name.bind(TURN)
                break
            except OSError:
                if waited % SIGN_OF_LIFE_SECONDS == 0:
                    say("another test run has an engine of its own here: waiting until it ends")
                time.sleep(1)
        yield


def answering_engine() -> Engine | None:
    """The engine that DOCKER_HOST or the usual socket reaches; None where none answers.

    Raises:
        Unavailable: it answers, but the programs to use it are not here.
    """
    host = os.environ.get("DOCKER_HOST", DEFAULT_SOCKET)
    try:
        client = docker.DockerClient(base_url=host, timeout=10)
        client.ping()
    except DockerException as error:
        if "DOCKER_HOST" in os.environ:
            raise Unavailable(f"no engine answers at DOCKER_HOST={host}: {error}") from error
        return None
    for words in (("buildx", "version"), ("compose", "version")):
        try:
            run(["docker", *words])
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(
                f"an engine answers at {host}, but `docker {words[0]}` does not work"
            ) from error
    (config,) = client.networks.get("bridge").attrs["IPAM"]["Config"][:1]
    return Engine(host, {"DOCKER_HOST": host}, config.get("Gateway", ""))


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


@dataclass
class Traces:
    """What must be undone, kept in a file: a run that was killed is cleaned up by the next."""

    token: str
    runtime: str
    bridge: str
    network: str
    forwarding: str
    bridges: list[str]
    rules: list[str]
    folders: list[str] = field(default_factory=list)

    @property
    def cgroup(self) -> str:
        return f"batchmark-{self.token}"

    @property
    def host(self) -> str:
        return f"unix://{self.runtime}/docker.sock"

    @property
    def halves(self) -> list[ipaddress.IPv4Network]:
        """The default bridge's network, and the one that networks of Compose are cut from."""
        return list(ipaddress.IPv4Network(self.network).subnets())

    @property
    def gateway(self) -> str:
        return str(next(self.halves[0].hosts()))


class OwnEngine:
    """Docker's engine as a child of ours: own socket, data, bridge and networks.

    Args:
        folder: packages stay there for the next run; images and containers do not.
        say: is told what happens.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder.resolve()
        self.say = say
        self.packages = Packages(self.folder / "packages", say)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def notes(self) -> Path:
        return self.folder / "traces.json"

    @property
    def log(self) -> Path:
        return self.folder / "dockerd.log"

    def start(self) -> Engine:
        """Start it and wait until it answers.

        Raises:
            Unavailable: this machine's kernel lacks what an engine needs.
        """
        if self.notes.exists():
            self.say("removing what a killed run left behind")
            self.stop()
        self.env = self._environment()
        traces = self._plan()
        self.notes.write_text(json.dumps(asdict(traces)))
        add_bridge(traces.bridge, f"{traces.gateway}/{traces.halves[0].prefixlen}")
        for driver in DRIVERS:
            self._launch(traces, driver)
            if self._answers(traces):
                self.say(f"an engine of our own runs, storage driver {driver}")
                children = {name: self.env[name] for name in ("PATH", "DOCKER_CONFIG")}
                env = {"DOCKER_HOST": traces.host, **children}
                return Engine(traces.host, env, traces.gateway, self.packages)
        raise Unavailable(f"Docker's engine does not start here: {self._last_words()}")

    def stop(self) -> None:
        """End it and remove all that it made; nothing to do where none was started."""
        if not self.notes.exists():
            return
        self.env = self._environment()
        traces = Traces(**json.loads(self.notes.read_text()))
        with suppress(DockerException):
            empty(docker.DockerClient(base_url=traces.host, timeout=STOP_SECONDS))
        self._end_processes(traces)
        for place in (Path(traces.runtime), self.data):
            unmount_below(place)
            shutil.rmtree(place, ignore_errors=True)
        self._set_network_back(traces)
        if not other_engines():
            for made in MADE_BY_ENGINES:
                if str(made) not in traces.folders:
                    with suppress(OSError):
                        made.rmdir()
        self.notes.unlink()

    def _environment(self) -> dict[str, str]:
        """PATH with the programs, and where they find their plugins and libraries."""
        root, links = self.packages.root, self.folder / "bin"
        plugins = self.folder / "docker" / "cli-plugins"
        for made in (links, plugins):
            made.mkdir(parents=True, exist_ok=True)
        libraries = root / "usr/lib" / f"{os.uname().machine}-linux-gnu"
        env = {
            "LD_LIBRARY_PATH": str(libraries),
            "XTABLES_LIBDIR": str(libraries / "xtables"),
            "DOCKER_CONFIG": str(plugins.parent),
            "PATH": f"{links}:{root}/usr/sbin:{root}/usr/bin:{os.environ['PATH']}",
        }
        for plugin in (root / "usr/libexec/docker/cli-plugins").glob("docker-*"):
            link(plugins / plugin.name, plugin)
        link(links / "docker-init", root / "usr/bin/tini-static")
        for kind in ("nft", "legacy"):
            for name in ("iptables", "iptables-save", "iptables-restore"):
                link(links / name, root / f"usr/sbin/xtables-{kind}-multi")
            with suppress(subprocess.CalledProcessError):
                run([str(links / "iptables-save")], env=env)
                break
        return env

    def _plan(self) -> Traces:
        """Free names and networks, and what is there before."""
        token = os.urandom(3).hex()
        return Traces(
            token=token,
            # Its path is short: those of sockets may have 107 characters.
            runtime=tempfile.mkdtemp(prefix="batchmark-engine-"),
            bridge=f"bm{token}",
            network=str(free_network(networks_in_use())),
            forwarding=FORWARDING.read_text(),
            bridges=sorted(bridges()),
            rules=Firewall(self.env).read(),
            folders=[str(place) for place in MADE_BY_ENGINES if place.exists()],
        )

    def _launch(self, traces: Traces, driver: str) -> None:
        mtu = mtu_outwards()
        settings = {
            "hosts": [traces.host],
            "data-root": str(self.data),
            "exec-root": f"{traces.runtime}/exec",
            "pidfile": f"{traces.runtime}/docker.pid",
            "bridge": traces.bridge,
            "cgroup-parent": traces.cgroup,
            "default-address-pools": [{"base": str(traces.halves[1]), "size": 24}],
            "default-network-opts": {"bridge": {"com.docker.network.driver.mtu": str(mtu)}},
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "ip6tables": False,
            "log-driver": "json-file",
            "mtu": mtu,
            "storage-driver": driver,
        }
        file = Path(traces.runtime) / "daemon.json"
        file.write_text(json.dumps(settings))
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                ["dockerd", "--config-file", str(file)],
                env={**os.environ, **self.env, MARKER: str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _answers(self, traces: Traces) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self._process and self._process.poll() is None and time.monotonic() < deadline:
            with suppress(DockerException):
                return bool(docker.DockerClient(base_url=traces.host).ping())
            time.sleep(0.2)
        self._end_processes(traces)
        shutil.rmtree(self.data, ignore_errors=True)
        return False

    def _end_processes(self, traces: Traces) -> None:
        """The engine first, which ends the rest; then what it could not end."""
        engines = [process for process in processes_of(self.folder) if process.name() == "dockerd"]
        for engine in engines:
            engine.terminate()
        psutil.wait_procs(engines, timeout=STOP_SECONDS)
        stop_all(self.folder)
        end_cgroup(traces.cgroup)
        if self._process:
            self._process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _set_network_back(self, traces: Traces) -> None:
        """Remove our bridges and rules; all that engines share stays for another that runs."""
        new = [name for name in bridges_in(traces.network) if name not in traces.bridges]
        for name in new:
            run(["ip", "link", "delete", name])
        prefix = traces.network.rsplit(".", 2)[0]
        ours = [traces.bridge, *new, f" {prefix}."]
        firewall = Firewall(self.env, traces.rules)
        if other_engines():
            firewall.remove(ours)
            return
        firewall.remove([*ours, "DOCKER"])
        firewall.restore_policies()
        FORWARDING.write_text(traces.forwarding)


def empty(client: docker.DockerClient) -> None:
    """Remove an engine's containers, and the networks and volumes that they used."""
    for container in client.containers.list(all=True):
        with suppress(DockerException):
            container.remove(force=True, v=True)
    client.networks.prune()
    client.volumes.prune(filters={"all": True})


def other_engines() -> list[int]:
    """The process ids of all engines on this machine."""
    return [
        process.pid
        for process in psutil.process_iter(["name"])
        if process.info["name"] == "dockerd"
    ]


def end_cgroup(name: str) -> None:
    """Kill what still runs in the engine's control groups, and remove them."""
    tops = [top for top in Path("/sys/fs/cgroup").glob(f"**/{name}") if top.is_dir()]
    for top in tops:
        for file in top.rglob("cgroup.procs"):
            for pid in file.read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
    deadline = time.monotonic() + STOP_SECONDS
    for top in tops:
        for group in [*sorted(top.rglob("*/"), reverse=True), top]:
            while group.is_dir() and time.monotonic() < deadline:
                with suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.1)


def unmount_below(place: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted(mounts, reverse=True):
        if Path(mount).is_relative_to(place):
            subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)


def link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
