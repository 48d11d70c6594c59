"""Starts torchrun on one node, with its arguments and environment.

When run as a program, this module unblocks the signals that the job blocks in all its threads, and
then runs torchrun.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import psutil

from batchmark_job.distributed.node import RENDEZVOUS, interface_of
from batchmark_job.distributed.task import ANSWER_VARIABLE, TASK_VARIABLE
from batchmark_job.interruption import STOP_SIGNALS

RANK = "batchmark_job.distributed.ranks.rank"
RENDEZVOUS_SECONDS = 900  # all nodes have joined by then, so it only bounds unexpected failures
# Exclude the loopback interface and the one that the ECS agent adds for its endpoint.
NCCL_INTERFACES = "^lo,ecs-eth"
LOOPBACK_INTERFACE = "lo"  # on a single node, since NCCL would listen on another interface


class Launch(NamedTuple):
    """The parameters for one launch of all ranks, sent to each node."""

    number: int
    nodes: int
    devices: int  # of each node
    address: str  # of the main node
    port: int  # a free port there

    def arguments(self, node: int, logs: Path) -> list[str]:
        return [
            f"--nnodes={self.nodes}",
            f"--nproc-per-node={self.devices}",
            *(f"--rdzv-backend={RENDEZVOUS}", f"--rdzv-endpoint={self.address}:{self.port}"),
            f"--rdzv-conf=rank={node},timeout={RENDEZVOUS_SECONDS}",
            "--max-restarts=0",
            *(f"--log-dir={logs}", "--tee=3"),
            *("--module", RANK),
        ]


def environment(own: str, threads: int, task: Path, answer: Path) -> dict[str, str]:
    """Return the variables that a node's ranks need in addition to those that torchrun sets.

    Args:
        own: the node's own address. gloo would otherwise resolve the host's name, and fall back to
            the loopback address where no name server knows it.
    """
    interface = interface_of(own)
    return {
        TASK_VARIABLE: str(task),
        ANSWER_VARIABLE: str(answer),
        "OMP_NUM_THREADS": str(threads),
        **({"GLOO_SOCKET_IFNAME": interface} if interface else {}),
    }


def main() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    # Imported late, as they load torch.
    from torch.distributed.run import main as run

    from batchmark_job.distributed.rendezvous import register

    register()
    run(sys.argv[1:])


def _end_with_parent() -> None:
    """Kill all ranks when the pipe on stdin closes, as it does however the job ends."""
    while os.read(sys.stdin.fileno(), 4096):  # not through a buffer: its lock would block the exit
        pass
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(1)


if __name__ == "__main__":
    main()
