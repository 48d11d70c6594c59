"""`make aws-check` on the local cloud with all that `WITH=` can name; nothing is left."""

import pytest

from laptop.aws_check.steps.parts import (
    CLUSTER,
    EKS_STACK,
    NODES,
    NODES_STACK,
    PARTS,
    PODS,
    TRAINING,
)
from tests.e2e.aws_check.conftest import PRINCIPAL, of_status
from tests.e2e.aws_check.test_whole import NOT_HERE, NOT_OF_AWS
from tests.e2e.deployer import recorded, refused

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.full_matrix
def test_every_part_is_applied_beside_it_and_destroyed_before_it(stack, checks):
    """595 s on 2 cores that others use, 2026-11-28."""
    code, said = checks.run("--yes", "--with", ",".join(PARTS), "--budget", "5")
    assert code == 0, said
    (report,) = checks.reports()
    assert of_status(report, "failed") == set()
    assert of_status(report, "not checked") == NOT_HERE | {PODS}
    assert {NODES_STACK, NODES, TRAINING, EKS_STACK, CLUSTER} <= of_status(report, "ok")
    assert report.over
    assert checks.left() == ({}, [], [])
    calls = recorded(stack.calls, PRINCIPAL)
    denied = {need.action for need in refused(calls, "aws_check", "multi_node", "eks")}
    assert denied == set(NOT_OF_AWS)
