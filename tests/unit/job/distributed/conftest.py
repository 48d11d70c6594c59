"""The main node of a job and the others, with ranks that do as they are told; a rank's place."""

import socket

import pytest

from batchmark_job.distributed import lines, local_ranks, nodes
from batchmark_job.distributed.node import Node
from batchmark_job.distributed.nodes import Nodes
from batchmark_job.distributed.task import Read
from tests.stand_ins.nodes import CPU, MAIN, PROOF, Followers
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(local_ranks, "TORCHRUN", "tests.stand_ins.torchrun")
    monkeypatch.setattr(nodes, "STOPPING_SECONDS", 5.0)
    monkeypatch.setattr(lines, "BEAT_SECONDS", 0.1)
    # The kernel counts all whom it kills for that, those of tests beside these, too.
    monkeypatch.setattr(local_ranks, "kills_for_memory", lambda: 0)


@pytest.fixture
def port():
    with socket.create_server((MAIN, 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def task(tmp_path):
    return Read(device="cpu", folder=tmp_path, cold=False, samples=4, max_seconds=1, threads=1)


@pytest.fixture
def followers(port):
    made = Followers(port)
    yield made
    made.join()


@pytest.fixture
def main(port, followers):
    """A main node of so many; it lets the others go at the end."""
    made = []

    def start(count, seconds=PATIENCE_SECONDS):
        made.append(Nodes(Node(0, count, None, seconds, PROOF), address=MAIN, port=port))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def both(main, followers):
    """The main node of two, the other of which has come."""
    all_nodes = main(2)
    followers.start(1, 2)
    all_nodes.gather(CPU, devices=1)
    return all_nodes


@pytest.fixture
def place(monkeypatch):
    """Set this process' place as torchrun does; alone unless told otherwise."""

    def put(rank=0, size=1, local_rank=0):
        for name, value in (("RANK", rank), ("WORLD_SIZE", size), ("LOCAL_RANK", local_rank)):
            monkeypatch.setenv(name, str(value))

    return put
