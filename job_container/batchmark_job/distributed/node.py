"""Which node of a multi-node job this is, and how the others reach it."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from batchmark_job.errors import InputError
from batchmark_job.machine.inventory import Machine
from batchmark_job.machine.metadata import ecs_metadata
from batchmark_job.option_values import number
from batchmark_job.result.values import Model

LOOPBACK = "127.0.0.1"
PREFIX = "AWS_BATCH_JOB_"
INDEX, COUNT, MAIN, MAIN_ADDRESS = (
    f"{PREFIX}{name}"
    for name in ("NODE_INDEX", "NUM_NODES", "MAIN_NODE_INDEX", "MAIN_NODE_PRIVATE_IPV4_ADDRESS")
)
CONTROL_PORT = 29400
JOINING = "BATCHMARK_JOINING_SECONDS"
# Children start once the main node runs, in any order; each may pull its image first.
JOINING_SECONDS = 1200.0


@dataclass(frozen=True)
class Node:
    """This one of a job's nodes."""

    index: int
    count: int
    main_address: str | None = None  # None on the main node
    joining_seconds: float = JOINING_SECONDS  # for all nodes to come

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Node:
        """By the variables that Batch sets; outside a multi-node job, the only one.

        Raises:
            InputError: they contradict each other, the main node is not the first, or the time for
                all to come is none.
        """
        if COUNT not in environment:
            return cls(0, 1)
        index, count, main = (_number(environment, name) for name in (INDEX, COUNT, MAIN))
        if main != 0:
            raise InputError(f"{MAIN} is {main}; the main node must be the first one, 0")
        if not 0 <= index < count:
            raise InputError(f"{INDEX} is {index}, and {COUNT} is {count}")
        address = environment.get(MAIN_ADDRESS)
        if index > 0 and not address:
            raise InputError(f"{MAIN_ADDRESS} is not set, and this is node {index} of {count}")
        seconds = number(JOINING, environment.get(JOINING), JOINING_SECONDS)
        if not 0 < seconds < math.inf:
            raise InputError(f"{JOINING} is {seconds:g}; give the seconds that nodes wait, above 0")
        return cls(index, count, address if index > 0 else None, seconds)

    @property
    def is_main(self) -> bool:
        return self.index == 0


class Greeting(Model):
    """What a node says of itself when it comes."""

    index: int
    job: str  # whose node it is
    address: str  # its own
    main_address: str  # at which it found the main node
    device: str
    device_model: str
    gpus: int
    instance_type: str | None

    @classmethod
    def of(
        cls, index: int, job: str, address: str, main_address: str, machine: Machine
    ) -> Greeting:
        found = machine.environment
        on_gpu = machine.device.value == "cuda"
        return cls(
            index=index,
            job=job,
            address=address,
            main_address=main_address,
            device=machine.device.value,
            device_model=(found.gpu_model if on_gpu else None) or found.cpu_model,
            gpus=found.gpu_count if on_gpu else 0,
            instance_type=found.instance_type,
        )


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text.isdecimal():
        raise InputError(f"{name} is {text!r}; Batch sets it to a whole number")
    return int(text)


def own_address(towards: str | None = None) -> str | None:
    """The address that ECS gave this container; else the one it has towards another node, if any.

    None outside ECS, and in its host's network.
    """
    for network in ecs_metadata().get("Networks") or ():
        for address in network.get("IPv4Addresses") or ():
            return str(address)
    if towards is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((towards, CONTROL_PORT))  # sends nothing
        return str(asked.getsockname()[0])


def interface_of(address: str) -> str | None:
    """The network interface with this address, or the loopback one with its network."""
    wanted = LOOPBACK if address.startswith("127.") else address
    found = psutil.net_if_addrs().items()
    return next(
        (str(name) for name, each in found if wanted in {one.address for one in each}), None
    )
