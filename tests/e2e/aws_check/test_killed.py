"""Killed while a fault lasts, `make aws-check` goes on, and nothing is left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from tests.e2e.aws_check.conftest import of_status
from tests.e2e.stacks import fault

pytestmark = pytest.mark.timeout(3600)

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/batchmark-check-job:check"
JOBS = {"CPU job", "GPU job on Spot", "GPU job On-Demand"}


class Case(NamedTuple):
    """A fault, the step at which the check is killed meanwhile, and what fails when it goes on."""

    fault: dict[str, Any]
    killed_at: str
    failing: set[str]
    then: str = "--resume"


CASES = {
    "quota 0": Case(
        {"kind": "vcpu_quota"},
        "apply the image",
        {"CPU quota", "GPU quota on Spot", "GPU quota On-Demand", "environment check"},
    ),
    "INVALID": Case(
        {"kind": "invalid_environment", "compute_environment": "batchmark-check-*"},
        "apply",
        {"apply"},
    ),
    "no capacity": Case({"kind": "no_capacity"}, "CPU job", JOBS),
    "image not found": Case({"kind": "missing_image", "image": IMAGE}, "Airflow", JOBS),
    "SNS refuses": Case(
        {"kind": "expired_credentials", "services": ["sns"], "operations": ["Subscribe"]},
        "destroy",
        {"inbox"},
    ),
    "slow answers": Case(
        {"kind": "late_answer", "operations": ["CreateJobQueue"], "delay_seconds": 1},
        "apply",
        set(),
        "--destroy",
    ),
}
TODAYS = list(CASES)[datetime.now(UTC).toordinal() % len(CASES)]
TODAYS_FIRST = [
    TODAYS,
    *(pytest.param(name, marks=pytest.mark.full_matrix) for name in CASES if name != TODAYS),
]


@pytest.mark.parametrize("name", TODAYS_FIRST)
def test_killed_with_a_fault_it_goes_on_fails_there_and_leaves_nothing(stack, checks, name):
    case = CASES[name]
    with fault(stack, **case.fault):
        checks.kill_at(case.killed_at, "--yes")
        refused, said = checks.run("--yes")
        assert refused == 1
        assert "continue it with RESUME=yes, or remove what it created with DESTROY=yes" in said
        code, said = checks.run(case.then)
    # What failed before it was destroyed is told by the report alone.
    only_destroyed = case.killed_at == "destroy" or case.then == "--destroy"
    assert code == int(bool(case.failing) and not only_destroyed), said
    (report,) = checks.reports()
    assert of_status(report, "failed") == case.failing, said
    assert report.over
    assert checks.left() == ({}, [], [])
