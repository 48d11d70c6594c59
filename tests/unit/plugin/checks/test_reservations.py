"""Capacity Reservations and Capacity Blocks that targets' instances start in."""

from datetime import UTC, datetime

import pytest

from batchmark.aws.batch_targets import BatchEnvironment
from batchmark.checks.environment import QUESTIONS
from batchmark.checks.reservations import check_reservations
from tests.stand_ins.guarded_account import CONFIG

ID = "cr-0123456789abcdef0"
RESERVATION = {
    "CapacityReservationId": ID,
    "InstanceType": "g5.xlarge",
    "State": "active",
    "ReservationType": "default",
}
BLOCK = RESERVATION | {"ReservationType": "capacity-block"}
STARTS = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)


RESERVED, BLOCKED = {"capacity_reservation": ID}, {"capacity_block": ID}
WRONG = "Capacity Block, so no instance can start in it while it is set as"


def checked(clients, **named):
    target = CONFIG.targets["g5.xlarge"].model_copy(update=named)
    return list(check_reservations(BatchEnvironment(CONFIG, {"g5.xlarge": target}, clients)))


@pytest.mark.parametrize(
    ("named", "found", "status", "seen", "mend"),
    [
        (RESERVED, RESERVATION, "ok", "is active.", ""),
        (BLOCKED, BLOCK, "ok", "is active.", ""),
        (
            *(RESERVED, BLOCK, "fail", f"is a {WRONG} capacity_reservation."),
            "Set it as capacity_block in target_overrides instead",
        ),
        (
            *(BLOCKED, RESERVATION, "fail", f"is not a {WRONG} capacity_block."),
            "Set it as capacity_reservation in target_overrides instead",
        ),
        (
            *(BLOCKED, BLOCK | {"InstanceType": "p5.48xlarge"}, "fail"),
            "is for p5.48xlarge, but the target uses g5.xlarge.",
            "Use one for the target's instance type",
        ),
        (
            *(BLOCKED, BLOCK | {"State": "scheduled", "StartDate": STARTS}, "warn"),
            "is scheduled, and begins at 2026-12-01 11:30 UTC.",
            "Jobs would wait for it until they are cancelled",
        ),
        (
            *(RESERVED, RESERVATION | {"State": "pending"}, "warn", "is pending."),
            "Jobs would wait for it",
        ),
        (
            *(BLOCKED, BLOCK | {"State": "expired"}, "fail", "is expired."),
            "Set another one, or none, in target_overrides",
        ),
    ],
)
def test_a_reservation_is_judged_by_what_ec2_says_of_it(clients, named, found, status, seen, mend):
    asked = {"CapacityReservationIds": [ID]}
    answer = {"CapacityReservations": [found]}
    clients.answer("ec2", "describe_capacity_reservations", answer, asked)
    (check,) = checked(clients, **named)
    assert (check.name, check.target, check.status) == ("capacity reservation", "g5.xlarge", status)
    assert check.seen == f"{ID} {seen}"
    assert check.remedy.startswith(mend)


def test_a_reservation_that_is_not_there_is_named(clients):
    code = "InvalidCapacityReservationId.NotFound"
    clients.refuse("ec2", "describe_capacity_reservations", code, "It does not exist.")
    (check,) = checked(clients, capacity_reservation=ID)
    assert (check.status, check.seen) == ("fail", f"{ID} does not exist.")


@pytest.mark.parametrize(
    "named", [{}, {"capacity_reservation": "arn:aws:resource-groups:us-east-1:1:group/mine"}]
)
def test_nothing_is_asked_without_a_reservation_or_of_a_group(clients, named):
    assert checked(clients, **named) == []


def test_the_environment_check_asks_of_reservations():
    assert QUESTIONS["capacity reservation"] is check_reservations
