"""The machine's network: what is free before an engine starts, and what it adds."""

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.containers.debian import run

CANDIDATES = ("172.16.0.0/12", "10.0.0.0/8", "192.168.0.0/16")
NETWORK_BITS = 16


def free_network(taken: Iterable[str]) -> ipaddress.IPv4Network:
    """A private /16 that overlaps with none of the networks and addresses in `taken`.

    Raises:
        LookupError: there is none.
    """
    used = [ipaddress.ip_network(network, strict=False) for network in taken]
    for candidate in CANDIDATES:
        for network in ipaddress.IPv4Network(candidate).subnets(new_prefix=NETWORK_BITS):
            if not any(network.overlaps(other) for other in used if other.version == 4):
                return network
    raise LookupError(f"no free network among {', '.join(CANDIDATES)}")


def networks_in_use() -> list[str]:
    """Every network that this machine has a route, an address or a name server in."""
    routes = ip_json(["-4", "route", "show", "table", "all"])
    found = [route["dst"] for route in routes if route.get("dst", "default") != "default"]
    found += [route["gateway"] for route in routes if "gateway" in route]
    for line in Path("/etc/resolv.conf").read_text().splitlines():
        match line.split():
            case ["nameserver", address, *_] if ":" not in address:
                found.append(address)
    return found


def add_bridge(name: str, address: str) -> None:
    run(["ip", "link", "add", name, "type", "bridge"])
    run(["ip", "address", "add", address, "dev", name])
    run(["ip", "link", "set", name, "up"])


def ip_json(words: list[str]) -> list[dict[str, Any]]:
    """The answer of `ip`, which is empty where there is nothing to list."""
    return json.loads(run(["ip", "-json", *words]).stdout or "[]")


def bridges_in(network: str) -> list[str]:
    inside = ipaddress.IPv4Network(network)
    links = ip_json(["-4", "address", "show", "type", "bridge"])
    return [
        link["ifname"]
        for link in links
        for address in link.get("addr_info", [])
        if ipaddress.IPv4Address(address["local"]) in inside
    ]
