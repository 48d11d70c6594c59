"""Fair-share scheduling policies: what AWS refuses, and whom a policy gives which weight."""

from __future__ import annotations

import itertools
import re
from typing import Any

from moto.batch.exceptions import ClientException
from moto.batch.models import JobQueue

NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
SHARE_IDENTIFIER = re.compile(r"[A-Za-z0-9]{1,255}\*?")
SHARE_DECAY_SECONDS = range(604_801)
COMPUTE_RESERVATION = range(100)
SCHEDULING_PRIORITY = range(10_000)
MAX_SHARES = 500
LEAST_WEIGHT, MOST_WEIGHT = 0.0001, 999.9999

Policy = dict[str, Any]
NO_LIMITS: Policy = {"shareDecaySeconds": 0, "computeReservation": 0, "shareDistribution": []}


def within(field: str, value: Any, allowed: range) -> None:
    if value is not None and int(value) not in allowed:
        raise ClientException(
            f"{field} must be between {allowed.start} and {allowed.stop - 1}, not {value}"
        )


def checked(policy: Policy | None) -> Policy:
    """A fairsharePolicy with its defaults; raises ClientException for one that AWS refuses."""
    policy = policy or {}
    within("shareDecaySeconds", policy.get("shareDecaySeconds"), SHARE_DECAY_SECONDS)
    within("computeReservation", policy.get("computeReservation"), COMPUTE_RESERVATION)
    shares = policy.get("shareDistribution") or []
    if len(shares) > MAX_SHARES:
        raise ClientException(
            f"shareDistribution takes at most {MAX_SHARES} share identifiers, not {len(shares)}"
        )
    for share in shares:
        check_identifier(share["shareIdentifier"])
        if not LEAST_WEIGHT <= float(share.get("weightFactor", 1)) <= MOST_WEIGHT:
            raise ClientException(
                f"weightFactor must be between {LEAST_WEIGHT} and {MOST_WEIGHT}, "
                f"not {share['weightFactor']}"
            )
    identifiers = [share["shareIdentifier"] for share in shares]
    for one, other in itertools.permutations(identifiers, 2):
        if covers(one, other):
            raise ClientException(f"Share identifiers can't overlap: {one} and {other}")
    return {
        "shareDecaySeconds": int(policy.get("shareDecaySeconds") or 0),
        "computeReservation": int(policy.get("computeReservation") or 0),
        "shareDistribution": shares,
    }


def check_identifier(identifier: str) -> None:
    if SHARE_IDENTIFIER.fullmatch(identifier) is None:
        raise ClientException(
            f"A share identifier is up to 255 letters and digits, which a '*' may follow, "
            f"not {identifier!r}"
        )


def covers(pattern: str, identifier: str) -> bool:
    """Whether an entry of a policy is for this share identifier: itself, or its prefix."""
    if pattern.endswith("*"):
        return identifier.startswith(pattern[:-1])
    return pattern == identifier


def weight(policy: Policy, identifier: str) -> float:
    """A share's weight factor: the lower, the more it gets; 1 if the policy does not name it."""
    for share in policy["shareDistribution"]:
        if covers(share["shareIdentifier"], identifier):
            return float(share.get("weightFactor", 1))
    return 1.0


def policy_of(queue: JobQueue) -> Policy | None:
    """A queue's fairsharePolicy; None if its jobs are scheduled in their order."""
    arn = getattr(queue, "schedule_policy", None)
    policy = queue.backend._scheduling_policies.get(arn) if arn else None
    return NO_LIMITS | policy.fairshare_policy if policy else None


def check_queue(queue: JobQueue | None, arn: str | None, known: Any) -> None:
    """Raise ClientException for a policy that a queue (None: a new one) can't have."""
    if not arn:
        return
    if arn not in known:
        raise ClientException(f"Scheduling policy {arn} does not exist")
    if queue is not None and not queue.schedule_policy:
        raise ClientException(
            f"Job queue {queue.name} has no fair-share scheduling policy, and can't be given one"
        )


def check_share(queue: JobQueue, identifier: str | None, priority: int | None) -> None:
    """Raise ClientException for a job's share identifier or priority that its queue refuses."""
    within("schedulingPriorityOverride", priority, SCHEDULING_PRIORITY)
    if policy_of(queue) is None:
        if identifier is not None:
            raise ClientException(
                f"Job queue {queue.name} has no fair-share scheduling policy: "
                f"shareIdentifier must not be given, not {identifier!r}"
            )
    elif not identifier:
        raise ClientException(
            f"Job queue {queue.name} has a fair-share scheduling policy: "
            "shareIdentifier must be provided"
        )
    else:
        check_identifier(identifier)
