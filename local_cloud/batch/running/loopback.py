"""Gives each node on this machine its own loopback address, since nodes in AWS don't share one."""

import itertools
import secrets
import sys

MACHINES_OWN = "127.0.0.1"
SECOND, THIRD, FOURTH = 254, 256, 254  # how many values the bytes of 127.x.y.z take
ALL = SECOND * THIRD * FOURTH

# Local clouds on one machine start at different places, or their nodes would collide.
_numbers = itertools.count(secrets.randbelow(ALL))


def new_address() -> str:
    """Return an unused address on Linux; other systems have only 127.0.0.1."""
    if sys.platform != "linux":
        return MACHINES_OWN
    rest, fourth = divmod(next(_numbers) % ALL, FOURTH)
    second, third = divmod(rest, THIRD)
    return f"127.{1 + second}.{third}.{1 + fourth}"
