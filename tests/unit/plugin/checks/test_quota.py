"""vCPU quotas, the targets' purchase options, and reservations that instances start in."""

from datetime import UTC, datetime

import pytest

from batchmark.aws.batch_targets import BatchEnvironment
from batchmark.aws.instance_families import instance_families, vcpu_quota
from batchmark.checks.environment import QUESTIONS
from batchmark.checks.quota import check_quotas
from batchmark.checks.reservations import check_reservations
from local_cloud.gaps.service_quotas import NAMES as QUOTA_NAMES
from tests.builders.leaks import REGION
from tests.stand_ins.guarded_account import CONFIG, NAMES, Refused, check, healthy, not_ok
from tests.stand_ins.stubbed_clients import StubbedClients

SPOT_G = "All G and VT Spot Instance Requests (L-3819A6DF)"
ON_DEMAND_G = "Running On-Demand G and VT instances (L-DB2E81BA)"
TAKES = "One instance of g5.xlarge needs 4 vCPUs."
ONE_LEFT = "Only the other purchase option is left."
OTHER_LEFT = ("g5.xlarge", "warn", f"{SPOT_G}: 0 vCPUs. {TAKES} {ONE_LEFT}")


NOT_TOLD = ("g5.xlarge", "not checked", f"{ON_DEMAND_G}: NoSuchResourceException: said AWS")
NONE_LEFT = [
    ("g5.xlarge", "fail", f"{SPOT_G}: 0 vCPUs. {TAKES}"),
    ("g5.xlarge", "fail", f"{ON_DEMAND_G}: 2 vCPUs. {TAKES}"),
]


@pytest.mark.parametrize(
    ("on_demand", "seen"),
    [
        (16.0, [OTHER_LEFT]),
        (2.0, NONE_LEFT),
        (Refused("NoSuchResourceException"), [NOT_TOLD, OTHER_LEFT]),
    ],
)
def test_a_quota_fails_only_if_no_purchase_option_is_left(on_demand, seen):
    account = healthy()
    account["quotas"] |= {"L-3819A6DF": 0.0, "L-DB2E81BA": on_demand}
    found = [(target, status, text) for _, target, status, text, _ in not_ok(check(account))]
    assert found == seen


def like(name, **changes):
    return CONFIG.targets[name].model_copy(update=changes)


def checked(targets, value, **vcpus):
    """The checks of targets' quotas, all of this value; and the types' vCPUs."""
    clients = StubbedClients(REGION)
    types = [
        {"InstanceType": name, "VCpuInfo": {"DefaultVCpus": count}} for name, count in vcpus.items()
    ]
    clients.answer("ec2", "describe_instance_types", {"InstanceTypes": types})
    for _ in range(4):
        clients.answer("service-quotas", "get_service_quota", {"Quota": {"Value": value}})
    return list(check_quotas(BatchEnvironment(CONFIG, targets, clients)))


def test_targets_that_share_too_small_a_quota_wait_for_each_other():
    both = {name: CONFIG.targets[name] for name in NAMES}
    both["c5.4xlarge"] = like("c5.2xlarge", instance_type="c5.4xlarge")
    vcpus = {"g5.xlarge": 4, "c5.2xlarge": 8, "c5.4xlarge": 16}
    found = [check for check in checked(both, 16.0, **vcpus) if check.status != "ok"]
    told = [(check.target, check.status) for check in found]
    assert told == [("c5.2xlarge, c5.4xlarge", "warn")] * 2
    assert "16 vCPUs. One instance of each takes 24, so their jobs wait" in found[0].seen
    assert found[0].remedy == "Request at least 24 in the Service Quotas console."


@pytest.mark.parametrize(
    ("instance_type", "on_demand", "spot"),
    [
        ("c5.2xlarge", "L-1216C47A", "L-34B43A08"),
        ("g4dn.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("gr6.4xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("p5en.48xlarge", "L-417A185B", "L-C4BD4855"),
        ("p6-b200.48xlarge", "L-417A185B", None),
        ("p6-b300.48xlarge", "L-417A185B", None),
        ("x2idn.16xlarge", "L-7295265B", "L-E3A00192"),
        *((name, None, None) for name in ("inf2.xlarge", "trn1.2xlarge", "hpc7a.96xlarge")),
    ],
)
def test_an_instance_type_has_a_quota_per_purchase_option(instance_type, on_demand, spot):
    found = (vcpu_quota(instance_type, option) for option in ("on_demand", "spot"))
    assert [one and one.code for one in found] == [on_demand, spot]


def test_what_has_no_documented_spot_or_capacity_block_quota_is_checked_on_demand_or_not():
    p6 = like("g5.xlarge", instance_type="p6-b200.48xlarge")
    unknown, judged = checked({"p6": p6}, 96.0, **{"p6-b200.48xlarge": 192})
    assert unknown.status == "not checked"
    assert unknown.seen == "The Spot quota for p6-b200.48xlarge is unknown."
    assert judged.status == "warn"
    assert judged.seen == (
        "Running On-Demand P instances (L-417A185B): 96 vCPUs. One instance of p6 needs 192 vCPUs. "
        f"{ONE_LEFT}"
    )
    block = like("g5.xlarge", capacity_block="cr-0123456789")
    checks = check_quotas(BatchEnvironment(CONFIG, {"g5": block}, StubbedClients(REGION)))
    told = {(check.status, check.seen) for check in checks}
    assert told == {("not checked", "The Capacity Block quota for g5.xlarge is unknown.")}


def test_every_gpu_family_has_an_on_demand_quota_and_the_local_cloud_all_of_them():
    for family in instance_families().gpu_families:
        assert vcpu_quota(f"{family}.xlarge", "on_demand"), family
    known = {
        quota
        for family in instance_families().quotas
        for quota in (family.on_demand, family.spot)
        if quota
    }
    assert dict(known) == QUOTA_NAMES


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
ODD = "Capacity Block, so no instance can start in it while it is set as"


def reserved(clients, **named):
    target = CONFIG.targets["g5.xlarge"].model_copy(update=named)
    return list(check_reservations(BatchEnvironment(CONFIG, {"g5.xlarge": target}, clients)))


@pytest.mark.parametrize(
    ("named", "found", "status", "seen", "mend"),
    [
        (RESERVED, RESERVATION, "ok", "is active.", ""),
        (BLOCKED, BLOCK, "ok", "is active.", ""),
        (RESERVED, BLOCK, "fail", f"is a {ODD} capacity_reservation.", "Set it as capacity_block"),
        (BLOCKED, RESERVATION, "fail", f"is not a {ODD} capacity_block.", "Set it as capacity_res"),
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
        (RESERVED, RESERVATION | {"State": "pending"}, "warn", "is pending.", "Jobs would wait"),
        (BLOCKED, BLOCK | {"State": "expired"}, "fail", "is expired.", "Set another one, or none"),
    ],
)
def test_a_reservation_is_judged_by_what_ec2_says_of_it(clients, named, found, status, seen, mend):
    asked = {"CapacityReservationIds": [ID]}
    answer = {"CapacityReservations": [found]}
    clients.answer("ec2", "describe_capacity_reservations", answer, asked)
    (check,) = reserved(clients, **named)
    assert (check.name, check.target, check.status) == ("capacity reservation", "g5.xlarge", status)
    assert check.seen == f"{ID} {seen}"
    assert check.remedy.startswith(mend)


def test_the_environment_check_asks_of_reservations_and_names_one_that_is_not_there(clients):
    code = "InvalidCapacityReservationId.NotFound"
    clients.refuse("ec2", "describe_capacity_reservations", code, "It does not exist.")
    (check,) = reserved(clients, capacity_reservation=ID)
    assert (check.status, check.seen) == ("fail", f"{ID} does not exist.")
    assert QUESTIONS["capacity reservation"] is check_reservations


@pytest.mark.parametrize(
    "named", [{}, {"capacity_reservation": "arn:aws:resource-groups:us-east-1:1:group/mine"}]
)
def test_nothing_is_asked_without_a_reservation_or_of_a_group(clients, named):
    assert reserved(clients, **named) == []
