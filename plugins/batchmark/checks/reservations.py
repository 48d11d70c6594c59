"""Checks the Capacity Reservations and Capacity Blocks in which targets' instances start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchmark.aws.batch_targets import BatchEnvironment, none_if_missing
from batchmark.checks.records import Check
from batchmark.core.config import Target

NAME = "capacity reservation"
BLOCK = "capacity-block"
COMING = ("assessing", "delayed", "payment-pending", "pending", "scheduled")


def check_reservations(environment: BatchEnvironment) -> Iterator[Check]:
    """Check that each reservation exists, is active, fits its target, and has the right kind.

    A Capacity Block's ID looks like any reservation's, but instances start in it only if it is
    requested as a block, and then in no other reservation. Resource groups are not resolved.
    """
    for name, target in environment.targets.items():
        wanted = target.capacity_block or target.capacity_reservation
        if wanted is None or not wanted.startswith("cr-"):
            continue
        answer = none_if_missing(
            environment.client("ec2").describe_capacity_reservations,
            CapacityReservationIds=[wanted],
        )
        found = answer["CapacityReservations"] if answer else []
        ok = Check(name=NAME, target=name, status="ok", seen=f"{wanted} is active.")
        if found:
            yield _judge(ok, wanted, target, found[0])
        else:
            mend = "Set another one in target_overrides and run `terraform apply`."
            yield ok.judged("fail", f"{wanted} does not exist.", mend)


def _judge(ok: Check, wanted: str, target: Target, found: dict[str, Any]) -> Check:
    settings = ["capacity_reservation", "capacity_block"]
    is_block = found.get("ReservationType") == BLOCK
    if is_block != (target.capacity_block is not None):
        right, wrong = reversed(settings) if is_block else settings
        kind = f"{'a' if is_block else 'not a'} Capacity Block"
        seen = f"{wanted} is {kind}, so no instance can start in it while it is set as {wrong}."
        mend = f"Set it as {right} in target_overrides instead and run `terraform apply`."
        return ok.judged("fail", seen, mend)
    kind, state = found["InstanceType"], found["State"]
    if kind != target.instance_type:
        seen = f"{wanted} is for {kind}, but the target uses {target.instance_type}."
        return ok.judged("fail", seen, "Use one for the target's instance type, or another target.")
    if state in COMING:
        begins = found.get("StartDate")
        begun = f", and begins at {begins:%Y-%m-%d %H:%M %Z}" if begins else ""
        mend = "Jobs would wait for it until they are cancelled: start the run later."
        return ok.judged("warn", f"{wanted} is {state}{begun}.", mend)
    if state != "active":
        mend = "Set another one, or none, in target_overrides and run `terraform apply`."
        return ok.judged("fail", f"{wanted} is {state}.", mend)
    return ok
