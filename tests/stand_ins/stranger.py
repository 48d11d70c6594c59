"""A stranger at the main node's port, who knows the job's id and how nodes greet, and no token."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

import psutil

DEEP = b"[" * 100_000 + b"\n"


def sayings(job_id: str) -> list[bytes]:
    """What it may try: other protocols, what nobody can read, another node's place, the end."""
    greeting = {
        "kind": "greeting",
        "index": 1,
        "job": job_id,
        "address": "203.0.113.1",
        "main_address": "203.0.113.2",
        "device": "cpu",
        "device_model": "a CPU",
        "gpus": 0,
        "instance_type": None,
    }
    declined = {"kind": "declined", "index": 1, "job": job_id, "reason": "no GPU"}
    told = [greeting, greeting | {"job": "another"}, declined, {"kind": "leaving", "reason": ""}]
    lines = [json.dumps(each).encode() + b"\n" for each in told]
    unreadable = [b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b"{}\n", b"\xff\n", DEEP, bytes(32)]
    return [*unreadable, *lines, *(bytes(32) + line for line in lines)]


def listening(process: psutil.Process, port: int) -> list[str]:
    """The addresses at which a process listens at a port.

    Raises:
        psutil.Error: it has ended.
    """
    return [
        str(each.laddr.ip)
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr.port == port
    ]


def heard(address: str, port: int, said: bytes, seconds: float = 10.0) -> bytes:
    """All that comes back until the connection is closed; the stranger says this and no more.

    Raises:
        OSError: nobody listens there, or nobody closes the connection in time.
    """
    found = b""
    with socket.create_connection((address, port), timeout=seconds) as connection:
        with suppress(OSError):  # who has heard enough doesn't wait for the rest
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while got := connection.recv(65_536):
                found += got
    return found
