"""Docker's engine as a child of ours."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path

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
    free_network,
    mtu_outwards,
    networks_in_use,
)
from tests.containers.traces import MADE_BY_ENGINES, STOP_SECONDS, Traces, empty, favour_cgroup

START_SECONDS = 90
DRIVERS = ("overlay2", "vfs")
MIB = 2**20


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

    def start(self) -> dict[str, str]:
        """Start it and wait until it answers; what its users need in their environment.

        Raises:
            Unavailable: this machine's kernel lacks what an engine needs.
        """
        if self.notes.exists():
            self.say("removing what a killed run left behind")
            self.stop()
        self.env = self.environment()
        traces = self._plan()
        self.notes.write_text(json.dumps(asdict(traces)))
        favour_cgroup(traces.cgroup)
        add_bridge(traces.bridge, f"{traces.gateway}/{traces.halves[0].prefixlen}")
        self._make_disk(traces.disk)
        for driver in DRIVERS:
            self._launch(traces, driver)
            if self._answers(traces):
                self.say(f"an engine of our own runs, storage driver {driver}")
                children = {name: self.env[name] for name in ("PATH", "DOCKER_CONFIG")}
                return {"DOCKER_HOST": traces.host, **children}
        raise Unavailable(f"Docker's engine does not start here: {self._last_words()}")

    def stop(self) -> None:
        """End it and remove all that it made; nothing to do where none was started."""
        if not self.notes.exists():
            return
        self.env = self.environment()
        traces = Traces(**json.loads(self.notes.read_text()))
        if answers(traces.socket):
            client = docker.DockerClient(base_url=traces.host, timeout=STOP_SECONDS)
            with suppress(DockerException), closing(client):
                empty(client)
        self._end_processes()
        traces.remove(self.env)
        if left := [*traces.found(self.env), *map(str, processes_of(self.folder))]:
            raise RuntimeError(f"the engine left behind: {', '.join(left)}")
        self.notes.unlink()

    def environment(self) -> dict[str, str]:
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
            # A short path: those of sockets may have 107 characters.
            runtime=tempfile.mkdtemp(prefix="batchmark-engine-", dir="/run"),
            data=str(self.data),
            bridge=f"bm{token}",
            network=str(free_network(networks_in_use())),
            forwarding=FORWARDING.read_text(),
            bridges=sorted(bridges()),
            rules=Firewall(self.env).read(),
            folders=[str(place) for place in MADE_BY_ENGINES if place.exists()],
        )

    def _make_disk(self, disk: Path) -> None:
        """A file system in a file, of which nothing must outlast a crash.

        An engine writes 100,000 small files: without a journal it does so sooner, and all are gone
        with the one file. Where there is no loop device, the data lie in the folder itself.
        """
        self.data.mkdir(parents=True)
        with disk.open("wb") as file:
            file.truncate(shutil.disk_usage(self.folder).free // MIB * MIB)
        options = ("-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", "-m", "0")
        try:
            run(["mkfs.ext4", "-q", "-F", *options, str(disk)])
            run(["mount", "-o", "loop,noatime,nodiscard", str(disk), str(self.data)])
        except (OSError, subprocess.CalledProcessError):
            disk.unlink()

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
            if answers(traces.socket):
                return True
            time.sleep(0.2)
        self._end_processes()
        return False

    def _end_processes(self) -> None:
        """The engine first, which ends the rest; then what it could not end."""
        engines = [process for process in processes_of(self.folder) if process.name() == "dockerd"]
        for engine in engines:
            engine.terminate()
        psutil.wait_procs(engines, timeout=STOP_SECONDS)
        stop_all(self.folder)
        if self._process:
            self._process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def answers(place: Path) -> bool:
    """Whether an engine answers at this socket; docker-py leaves one open where none does."""
    with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
        asking.settimeout(STOP_SECONDS)
        asking.connect(str(place))
        asking.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return b" 200 " in asking.recv(64)
    return False


def link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
