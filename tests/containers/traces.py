"""What an engine of our own leaves on a machine, and how it is removed."""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker
import psutil
from docker.errors import DockerException

from tests.containers.debian import run
from tests.containers.host_network import FORWARDING, Firewall, bridges_in

STOP_SECONDS = 60
CGROUPS = Path("/sys/fs/cgroup")
SESSIONS = 2  # whose time all containers get; with 8, the tests beside them hardly move
# Engines make these and leave them; ours removes those that were not there before.
MADE_BY_ENGINES = tuple(
    Path("/run") / name
    for name in ("docker/plugins", "docker", "containerd/s", "containerd", "runc")
)


@dataclass
class Traces:
    """What must be undone, kept in a file: a run that was killed is cleaned up by the next."""

    token: str
    runtime: str
    data: str
    bridge: str
    network: str
    forwarding: str
    bridges: list[str]
    rules: list[str]
    folders: list[str]

    @property
    def cgroup(self) -> str:
        return f"batchmark-{self.token}"

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    @property
    def socket(self) -> Path:
        return Path(self.runtime) / "docker.sock"

    @property
    def halves(self) -> list[ipaddress.IPv4Network]:
        """The default bridge's network, and the one that networks of Compose are cut from."""
        return list(ipaddress.IPv4Network(self.network).subnets())

    @property
    def gateway(self) -> str:
        return str(next(self.halves[0].hosts()))

    @property
    def disk(self) -> Path:
        """The file that holds the file system of the data."""
        return Path(f"{self.data}.ext4")

    @property
    def places(self) -> tuple[Path, Path]:
        """The two folders that hold all its files."""
        return Path(self.runtime), Path(self.data)

    def remove(self, env: Mapping[str, str]) -> None:
        """Undo all that an ended engine did to this machine.

        Args:
            env: finds iptables.
        """
        end_cgroup(self.cgroup)
        for place in self.places:
            unmount_below(place)
            shutil.rmtree(place, ignore_errors=True)
        self.disk.unlink(missing_ok=True)
        shared = bool(engines())
        in_rules = self.in_rules(shared=shared)
        for bridge in self.new_bridges():
            run(["ip", "link", "delete", bridge])
        firewall = Firewall(env, self.rules)
        firewall.remove(in_rules)
        if shared:
            return
        firewall.restore_policies()
        FORWARDING.write_text(self.forwarding)
        for made in MADE_BY_ENGINES:
            if str(made) not in self.folders:
                with suppress(OSError):
                    made.rmdir()

    def found(self, env: Mapping[str, str]) -> list[str]:
        """What is still there, for a message."""
        rules = Firewall(env, self.rules).new_with(self.in_rules(shared=bool(engines())))
        mounts = [mount for place in self.places for mount in mounts_below(place)]
        kept = [place for place in (*self.places, self.disk) if place.exists()]
        places = [*kept, *loops(self.disk), *groups(self.cgroup)]
        return [*map(str, places), *mounts, *self.new_bridges(), *rules]

    def new_bridges(self) -> list[str]:
        return [name for name in bridges_in(self.network) if name not in self.bridges]

    def in_rules(self, *, shared: bool) -> list[str]:
        """What the engine's rules name; DOCKER's chains are also another engine's."""
        first_half = self.network.rsplit(".", 2)[0]
        names = [self.bridge, *self.new_bridges(), f" {first_half}."]
        return names if shared else [*names, "DOCKER"]


def empty(client: docker.DockerClient) -> None:
    """Remove an engine's containers, and the networks and volumes that they used."""
    for container in client.containers.list(all=True):
        with suppress(DockerException):
            container.remove(force=True, v=True)
    client.networks.prune()
    client.volumes.prune(filters={"all": True})


def engines() -> list[int]:
    """The process ids of all engines on this machine."""
    return [
        process.pid
        for process in psutil.process_iter(["name"])
        if process.info["name"] == "dockerd"
    ]


def favour_cgroup(name: str) -> None:
    """Make the control group of all containers, and give it the time of so many sessions.

    The kernel shares cores among control groups and sessions (sched(7), "The autogroup feature"),
    so all containers together would get as much as one of the many sessions beside them.
    """
    by_controller = CGROUPS / "cpu"  # as in version 1
    top = (by_controller if by_controller.is_dir() else CGROUPS) / name
    with suppress(OSError):  # where they are read only, the containers take longer
        top.mkdir(exist_ok=True)
        for file, of_one in (("cpu.shares", 1024), ("cpu.weight", 100)):
            if (top / file).exists():
                (top / file).write_text(str(SESSIONS * of_one))


def end_cgroup(name: str) -> None:
    """Kill what still runs in the engine's control groups, and remove them."""
    tops = groups(name)
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


def groups(name: str) -> list[Path]:
    """A control group's folders: one, or one per controller, each where its engine was itself."""
    return [found for found in CGROUPS.rglob(name) if found.is_dir()]


def mounts_below(place: Path) -> list[str]:
    """Mount points in a folder and the folder itself, the innermost first."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted((mount for mount in mounts if Path(mount).is_relative_to(place)), reverse=True)


def loops(file: Path) -> list[Path]:
    """The loop devices that are made of a file, which may be deleted."""
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    return [one for one in backing if one.read_text().startswith(str(file))]


def unmount_below(place: Path) -> None:
    for mount in mounts_below(place):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
