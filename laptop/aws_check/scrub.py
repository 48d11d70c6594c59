"""Removes anything that identifies an account, a person or a machine from text."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from laptop.stack import ROOT

# A shorter name would be cut out of ordinary words, and identifies nobody.
SHORTEST_NAME = 3
OF_NOBODY = ("root", "user", "admin", "ubuntu", "localhost")
PATTERNS = (
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"), "<key>"),
    (re.compile(r"(:(?:user|assumed-role|federated-user)/)[^\s\"',;)\]]+"), r"\1<name>"),
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), "<account>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<e-mail>"),
    (re.compile(r"\b(?:ip|ec2)-\d{1,3}(?:-\d{1,3}){3}[\w.-]*"), "<host>"),
    (re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"), "<address>"),
    (
        re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}(?::|[0-9a-fA-F]{1,4})[0-9a-fA-F:]*"),
        "<address>",
    ),
)


def scrubbed(text: str, names: Iterable[str] = ()) -> str:
    """Remove account ids, e-mail and IP addresses, hosts, keys and these names from text."""
    known = {str(ROOT): "<clone>", str(Path.home()): "<home>"}
    known |= {name: "<name>" for name in names if _names_somebody(name)}
    for name in sorted(known, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", known[name], text)
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text


def names_here(principal_arn: str) -> list[str]:
    """Return names that identify the user or this machine, including the user's IAM name."""
    return [
        getpass.getuser(),
        socket.gethostname(),
        os.environ.get("AWS_PROFILE", ""),
        principal_arn.rpartition("/")[2],
    ]


def _names_somebody(name: str) -> bool:
    return len(name) >= SHORTEST_NAME and name.lower() not in OF_NOBODY
