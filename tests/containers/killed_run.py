"""A test run that is killed with containers up, and the run after it; prints what stays of both.

Run it in namespaces of its own (see test_engine.py): there the engine is the only one, and what it
changes is seen by nobody else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import docker
import psutil

from tests.containers.host_network import FORWARDING, Firewall, bridges
from tests.containers.own_engine import OwnEngine
from tests.containers.traces import mounts_below

RUNS = "the container runs"


def main(folder: Path, root: Path) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    engine = OwnEngine(folder, print)
    env = engine.environment()
    before = state(folder, env)
    command = [sys.executable, "-m", "tests.containers.killed_run", str(folder), str(root), RUNS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(line, end="")
            if line.strip() == RUNS:
                break
        run.send_signal(signal.SIGKILL)
    report("left by the killed run", before, state(folder, env))
    engine.start()
    report("with the second engine", before, state(folder, env))
    engine.stop()
    report("left in the end", before, state(folder, env))


def leave_running(folder: Path, root: Path) -> None:
    env = OwnEngine(folder, print).start()
    os.environ.update(env)
    subprocess.run(["docker", "import", str(root), "root"], check=True)
    with closing(docker.DockerClient(base_url=env["DOCKER_HOST"])) as client:
        client.networks.create("net", driver="bridge")
        client.containers.run(
            *("root", ["sleep", "600"]),
            detach=True,
            network="net",
            ports={"80/tcp": ("127.0.0.1", None)},
        )
    print(RUNS, flush=True)
    signal.pause()


def state(folder: Path, env: dict[str, str]) -> set[str]:
    """All that an engine changes on its machine."""
    alive = (each for each in psutil.process_iter() if each.status() != psutil.STATUS_ZOMBIE)
    processes = [process.name() for process in alive]
    runtime = [*Path("/run").glob("batchmark-engine-*"), *Path("/run").glob("docker")]
    groups = Path("/sys/fs/cgroup").glob("**/batchmark-*")
    # Tables stay as long as the machine runs: chains that are built in, and let everything pass.
    rules = [rule for rule in Firewall(env).read() if not rule.endswith(" ACCEPT")]
    forwarding = f"forwarding {FORWARDING.read_text()}"
    return {
        *mounts_below(folder),
        *processes,
        *map(str, (*runtime, *groups)),
        *bridges(),
        *rules,
        forwarding,
    }


def report(when: str, before: set[str], now: set[str]) -> None:
    print(f"{when}: {len(now - before)} more, {len(before - now)} fewer")
    for line in sorted(now - before):
        print(f"  + {line}")
    for line in sorted(before - now):
        print(f"  - {line}")


if __name__ == "__main__":
    (leave_running if sys.argv[3:] == [RUNS] else main)(Path(sys.argv[1]), Path(sys.argv[2]))
