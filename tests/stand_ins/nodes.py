"""Nodes of one job on loopback addresses, here threads, and what they say of themselves."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from batchmark_job.distributed.follow import Follower
from batchmark_job.distributed.lines import connect
from batchmark_job.distributed.node import Greeting, Node
from batchmark_job.errors import CannotMeasureError
from batchmark_job.result.document import Device
from tests.waiting import PATIENCE_SECONDS

MAIN = "127.77.0.1"
PROOF = b"thirty-two bytes of this job 01."
CPU = SimpleNamespace(
    device=Device.CPU,
    environment=SimpleNamespace(
        cpu_model="a CPU", gpu_model=None, gpu_count=0, instance_type="c5.large"
    ),
)
GREETING = Greeting.of(1, "127.77.0.2", CPU)


def node_environment(index, count):
    """What Batch and this project set for a node of a job."""
    environment = {
        "AWS_BATCH_JOB_ID": f"job-1#{index}",
        "AWS_BATCH_JOB_NODE_INDEX": str(index),
        "AWS_BATCH_JOB_NUM_NODES": str(count),
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
        "BATCHMARK_NODES_TOKEN": "a secret of forty-three characters, or more",
    }
    main = {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.7"}
    return environment | (main if index else {})


class Followers:
    """The other nodes, and how each of them ended."""

    def __init__(self, port):
        self._port = port
        self._threads = []
        self.made, self.errors = {}, {}

    def start(self, index, count, proof=PROOF, **changed):
        node = Node(index, count, MAIN, PATIENCE_SECONDS, proof)
        address = f"127.77.0.{index + 1}"
        greeting = Greeting.of(index, address, CPU).model_copy(update=changed)

        follower = self.made[index] = Follower(node, greeting, None, self._port)

        def run():
            try:
                follower.follow()
            except CannotMeasureError as error:
                self.errors[index] = str(error)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def join(self):
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


def one_that_came(port):
    """Another node's connection, by which it has greeted the main one."""
    other = connect(MAIN, port, PATIENCE_SECONDS, PROOF)
    other.send({"kind": "greeting", **GREETING.model_dump()})
    return other
