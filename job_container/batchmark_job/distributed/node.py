"""Determines which node of a multi-node job this is, and how the other nodes can reach it."""

from __future__ import annotations

import hmac
import math
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from batchmark_job.errors import InputError
from batchmark_job.machine.inventory import Machine
from batchmark_job.machine.metadata import ecs_metadata
from batchmark_job.option_values import number
from batchmark_job.result.scaling_options import NODES_TOKEN
from batchmark_job.result.values import Model

LOOPBACK = "127.0.0.1"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - rejected as an address
PREFIX = "AWS_BATCH_JOB_"
JOB = f"{PREFIX}ID"
INDEX, COUNT, MAIN, MAIN_ADDRESS = (
    f"{PREFIX}{name}"
    for name in ("NODE_INDEX", "NUM_NODES", "MAIN_NODE_INDEX", "MAIN_NODE_PRIVATE_IPV4_ADDRESS")
)
LEAST_CHARACTERS = 32  # of a token
CONTROL_PORT = 29400  # torchrun's default; no clash, as our rendezvous takes another port
RENDEZVOUS = "own-address"  # name of torchrun's rendezvous at the main node's address
ASKED = 5  # retries: the main node needs its address, and the ECS agent may be busy
JOINING = "BATCHMARK_JOINING_SECONDS"
# Children start once the main node runs, in any order; each may pull its image first.
JOINING_SECONDS = 1200.0


@dataclass(frozen=True)
class Node:
    """This process's node, and its place in the job."""

    index: int
    count: int
    main_address: str | None = None  # None on the main node, where Batch doesn't set it
    joining_seconds: float = JOINING_SECONDS  # for all nodes to join
    # shared by the job's nodes; empty in a single-node job
    proof: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Node:
        """Read the node from Batch's variables; outside a multi-node job, it is the only node.

        Raises:
            InputError: the variables are invalid or contradictory, the main node is not node 0, the
                joining time is not positive, or the job has no secret token.
        """
        if COUNT not in environment:
            return cls(0, 1)
        index, count, main = (_number(environment, name) for name in (INDEX, COUNT, MAIN))
        if main != 0:
            raise InputError(f"{MAIN} is {main}; the main node must be node 0")
        if not 0 <= index < count:
            raise InputError(
                f"{INDEX} is {index}; with {COUNT}={count}, it must be from 0 to {count - 1}"
            )
        address = environment.get(MAIN_ADDRESS) or None
        if address and (":" in address or address == EVERY_ADDRESS):
            raise InputError(
                f"{MAIN_ADDRESS} is {address}; set it to an IPv4 address at which the other nodes "
                "can reach the main node"
            )
        if index > 0 and address is None:
            raise InputError(
                f"{MAIN_ADDRESS} is not set; node {index} needs it to reach the main node"
            )
        seconds = number(JOINING, environment.get(JOINING), JOINING_SECONDS)
        if not 0 < seconds < math.inf:
            raise InputError(
                f"{JOINING} is {seconds:g}; it must be a finite number of seconds greater than 0"
            )
        proof = _proof(environment) if count > 1 else b""
        return cls(index, count, address, seconds, proof)

    @property
    def is_main(self) -> bool:
        return self.index == 0


class Greeting(Model):
    """A node's description of itself, sent to the main node when it joins."""

    index: int
    address: str  # this node's own
    device: str
    device_model: str
    gpus: int
    instance_type: str | None

    @classmethod
    def of(cls, index: int, address: str, machine: Machine) -> Greeting:
        found = machine.environment
        on_gpu = machine.device.value == "cuda"
        return cls(
            index=index,
            address=address,
            device=machine.device.value,
            device_model=(found.gpu_model if on_gpu else None) or found.cpu_model,
            gpus=found.gpu_count if on_gpu else 0,
            instance_type=found.instance_type,
        )


def _proof(environment: Mapping[str, str]) -> bytes:
    """Derive the proof of membership from the job's id and secret token.

    Raises:
        InputError: the token is missing or too short.
    """
    token = environment.get(NODES_TOKEN, "")
    if len(token) < LEAST_CHARACTERS:
        raise InputError(
            f"{NODES_TOKEN} has {len(token)} characters; use SubmitJob's nodeOverrides to set it "
            f"to the same secret of {LEAST_CHARACTERS} or more random characters on all of the "
            "job's nodes"
        )
    job = environment.get(JOB, "").partition("#")[0]
    return hmac.digest(os.fsencode(token), job.encode(), "sha256")


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text.isdecimal():
        raise InputError(f"{name} is {text!r}; it must be a whole number, as set by Batch")
    return int(text)


def own_address(towards: str | None = None) -> str | None:
    """Return this container's address according to ECS, or else the one used to reach `towards`.

    Return None if there is neither. ECS reports no address in host network mode.
    """
    for _ in range(ASKED):
        for network in ecs_metadata().get("Networks") or ():
            for address in network.get("IPv4Addresses") or ():
                return str(address)
    if towards is None:
        return None
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((towards, CONTROL_PORT))  # connecting UDP sends nothing
        return str(asked.getsockname()[0])
    return None


def interface_of(address: str) -> str | None:
    """Return the name of the interface with this address; any 127.* address means loopback."""
    wanted = LOOPBACK if address.startswith("127.") else address
    found = psutil.net_if_addrs().items()
    return next(
        (str(name) for name, each in found if wanted in {one.address for one in each}), None
    )
