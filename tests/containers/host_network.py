"""What an engine changes in the machine's network: free names before, nothing left after."""

from __future__ import annotations

import ipaddress
import json
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.containers.debian import run

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
CANDIDATES = ("172.16.0.0/12", "10.0.0.0/8", "192.168.0.0/16")
NETWORK_BITS = 16
USUAL_MTU = 1500


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


def mtu_outwards() -> int:
    """The MTU of the way out: a bridge with a larger one loses what is long."""
    routes = ip_json(["-4", "route", "show", "default"])
    if not routes:
        return USUAL_MTU
    (link,) = ip_json(["link", "show", "dev", routes[0]["dev"]])
    return int(link["mtu"])


def add_bridge(name: str, address: str) -> None:
    run(["ip", "link", "add", name, "type", "bridge"])
    run(["ip", "address", "add", address, "dev", name])
    run(["ip", "link", "set", name, "up"])


def ip_json(words: list[str]) -> list[dict[str, Any]]:
    """The answer of `ip`, which is empty where there is nothing to list."""
    found: list[dict[str, Any]] = json.loads(run(["ip", "-json", *words]).stdout or "[]")
    return found


def bridges() -> set[str]:
    return {
        link["ifname"] for link in ip_json(["link", "show", "type", "bridge"]) if "ifname" in link
    }


def bridges_in(network: str) -> list[str]:
    inside = ipaddress.IPv4Network(network)
    links = ip_json(["-4", "address", "show", "type", "bridge"])
    return [
        link["ifname"]
        for link in links
        for address in link.get("addr_info", [])
        if ipaddress.IPv4Address(address["local"]) in inside
    ]


@dataclass
class Firewall:
    """The rules of iptables as they stood once, to be set back to.

    Args:
        env: finds the programs `iptables` and `iptables-save`.
    """

    env: Mapping[str, str]
    rules: list[str] = field(default_factory=list)

    def read(self) -> list[str]:
        """Every chain and rule with its table before it: `nat -A POSTROUTING …`."""
        found, table = [], ""
        for line in run(["iptables-save"], env=dict(self.env)).stdout.splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith(":"):
                chain, policy = line[1:].split()[:2]
                found.append(f"{table} -P {chain} {policy}")
            elif line.startswith("-A"):
                found.append(f"{table} {line}")
        return found

    def new_with(self, ours: Iterable[str]) -> list[str]:
        """The chains and rules that are new and name one of `ours`."""
        names = tuple(ours)
        new = [line for line in self.read() if line not in self.rules]
        return [line for line in new if any(name in line for name in names)]

    def remove(self, ours: Iterable[str]) -> None:
        """Remove the rules and chains that are new and name one of `ours`."""
        mine = [shlex.split(line) for line in self.new_with(ours)]
        for table, flag, chain, *rest in mine:
            if flag == "-A":
                self._iptables(table, "-D", chain, *rest)
        chains = [(table, chain) for table, flag, chain, *rest in mine if flag == "-P"]
        for flag in ("-F", "-X"):
            for table, chain in chains:
                self._iptables(table, flag, chain)

    def restore_policies(self) -> None:
        """Set the built-in chains' policies to what they were; to ACCEPT, as without any rule."""
        before = {tuple(line.split()[:3]): line.split()[3] for line in self.rules if " -P " in line}
        for line in self.read():
            table, flag, chain, policy, *_ = line.split()
            wanted = before.get((table, flag, chain), "ACCEPT")
            if flag == "-P" and policy not in ("-", wanted):
                self._iptables(table, "-P", chain, wanted)

    def _iptables(self, table: str, *words: str) -> None:
        # A rule may have gone with its bridge; what matters is that it is not there.
        subprocess.run(
            ["iptables", "-t", table, *words], env=dict(self.env), capture_output=True, check=False
        )
