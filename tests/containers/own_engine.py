"""Docker's engine as a child of ours.

It runs in a mount and a process namespace of its own, which end with it or with the tests, and take
along its mounts and processes, however they end. It neither makes rules of iptables nor forwards:
jobs and services talk to each other and to this machine. Bridges, control groups and files stay,
and are removed by what the notes say.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.containers import host_network
from tests.containers.debian import Packages, Unavailable, run
from tests.waiting import PATIENCE_SECONDS, wait_for

MIB = 2**20
CGROUPS = Path("/sys/fs/cgroup")
SESSIONS = 2  # whose time all containers get; with 8, the tests beside them hardly move
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# A disk in a file, of which nothing must outlast a crash: an engine writes 100,000 small files,
# without a journal it does so sooner. Where there is no loop device, they lie in the folder itself.
PREPARE = """
mount -t tmpfs engine /run
{ mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=1,nodiscard -m 0 "$1" \
    && mount -o loop,noatime,nodiscard "$1" "$2"; } || rm "$1"
shift 2
exec "$@"
"""


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
        self.process: subprocess.Popen[bytes] | None = None
        self._data = self.folder / "data"
        self._disk = self.folder / "data.ext4"
        self._notes = self.folder / "made.json"  # for the run after a killed one
        self._log = self.folder / "dockerd.log"

    def start(self) -> dict[str, str]:
        """Start it and wait until it answers; what its users need in their environment.

        Raises:
            Unavailable: this machine's kernel lacks what an engine needs.
        """
        if self._notes.exists():
            self.say("removing what a killed run left behind")
            self.stop()
        # A short path: those of sockets may have 107 characters.
        runtime = tempfile.mkdtemp(prefix="batchmark-engine-", dir="/tmp")
        network = host_network.free_network(host_network.networks_in_use())
        made = {"runtime": runtime, "network": str(network), "cgroup": Path(runtime).name}
        self._notes.write_text(json.dumps(made))
        self._data.mkdir()
        with self._disk.open("wb") as file:
            file.truncate(shutil.disk_usage(self.folder).free // MIB * MIB)
        env = self._environment()
        favour_cgroup(made["cgroup"])
        for_bridge, for_networks = network.subnets()
        bridge = f"bm-{os.urandom(3).hex()}"
        host_network.add_bridge(bridge, f"{next(for_bridge.hosts())}/{for_bridge.prefixlen}")
        settings = {
            "hosts": [f"unix://{runtime}/docker.sock"],
            "data-root": str(self._data),
            "bridge": bridge,
            "cgroup-parent": made["cgroup"],
            "default-address-pools": [{"base": str(for_networks), "size": 24}],
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "ip-forward": False,
            "iptables": False,
            "ip6tables": False,
            "log-driver": "json-file",
        }
        file = Path(runtime) / "daemon.json"
        file.write_text(json.dumps(settings))
        dockerd = ("tini-static", "--", "dockerd", "--config-file", str(file))
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", *NAMESPACES),
                    *("sh", "-c", PREPARE, "sh", str(self._disk), str(self._data), *dockerd),
                ],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        place = Path(runtime) / "docker.sock"
        with suppress(TimeoutError):
            wait_for(lambda: answers(place) or self.process.poll() is not None, "it")
        if not answers(place):
            end = (self._log.read_text(errors="replace").strip() or "it said nothing").splitlines()
            raise Unavailable(f"Docker's engine does not start here: {end[-1]}")
        self.say("an engine of our own runs")
        children = {name: env[name] for name in ("PATH", "DOCKER_CONFIG")}
        return {"DOCKER_HOST": settings["hosts"][0], **children}

    def stop(self) -> None:
        """End it and remove all that it made; nothing to do where none was started."""
        if not self._notes.exists():
            return
        made = json.loads(self._notes.read_text())
        if self.process:
            self.process.kill()
            self.process.wait()
        end_cgroup(made["cgroup"])
        for bridge in host_network.bridges_in(made["network"]):
            run(["ip", "link", "delete", bridge])
        for place in (made["runtime"], self._data):
            shutil.rmtree(place, ignore_errors=True)
        self._disk.unlink(missing_ok=True)
        self._notes.unlink()

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
        # In containers' own networks an engine's name server has rules.
        for kind in ("nft", "legacy"):
            link(links / "iptables", root / f"usr/sbin/xtables-{kind}-multi")
            with suppress(subprocess.CalledProcessError):
                run([str(links / "iptables"), "--list-rules"], env=env)
                break
        return env


def answers(place: Path) -> bool:
    """Whether an engine answers at this socket; docker-py leaves one open where none does."""
    with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
        asking.settimeout(PATIENCE_SECONDS)
        asking.connect(str(place))
        asking.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return b" 200 " in asking.recv(64)
    return False


def link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)


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

    def is_gone() -> bool:
        for top in groups(name):
            for file in top.rglob("cgroup.procs"):
                for pid in file.read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            for group in [*sorted(top.rglob("*/"), reverse=True), top]:
                with suppress(OSError):  # processes that end are still in it
                    group.rmdir()
        return not groups(name)

    wait_for(is_gone, f"end of {name}")


def groups(name: str) -> list[Path]:
    """A control group's folders: one, or one per controller."""
    return [found for found in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")) if found.is_dir()]
