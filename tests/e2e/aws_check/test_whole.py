"""`make aws-check` on the local cloud, all of it; nothing is left."""

import pytest

from tests.e2e.aws_check.conftest import PRINCIPAL, of_status
from tests.e2e.deployer import needed, recorded, refused, unused

pytestmark = pytest.mark.timeout(3600)

NOT_OF_AWS = {
    "ecr:ListImages": "for the stand-in of an image, which only a local cloud gets",
    "s3:DeleteObjects": "it takes s3:DeleteObject on keys, which are in the request's body",
}
# What is allowed beside what a check calls where all goes well.
WHERE_A_JOB_WAITS = {
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeScalingActivities",
    "batch:TerminateJob",
    "cloudwatch:GetMetricStatistics",
    "ecs:ListContainerInstances",
    "logs:FilterLogEvents",
}
OF_AWS_ALONE = {"freetier:GetAccountPlanState"}  # asked before anything is made
# What a local cloud can't show.
NOT_HERE = {"image", "Airflow's rights", "down to zero"}


def test_the_whole_of_it_leaves_a_report_and_nothing_else(stack, checks):
    code, said = checks.run("--yes", "--with", "sharing", "--budget", "3")
    assert code == 0, said
    (report,) = checks.reports()
    assert of_status(report, "failed") == set()
    assert of_status(report, "not checked") == NOT_HERE
    assert report.over
    sent = "".join(path.read_text() for path in checks.folder.glob("2*"))
    assert "123456789012" not in sent
    assert "127.0.0.1" not in sent
    assert checks.left() == ({}, [], [])
    calls = recorded(stack.calls, PRINCIPAL)
    assert {need.action for need in refused(calls, "aws_check")} == set(NOT_OF_AWS)
    assert unused(needed(calls)[1], "aws_check") == WHERE_A_JOB_WAITS | OF_AWS_ALONE
    assert "there is no unfinished check in" in checks.run("--resume")[1]
