"""What Service Quotas says of the account's vCPUs."""

from datetime import timedelta

import pytest

from batchmark.diagnosis import diagnose
from tests.unit.diagnosis.answers import (
    ENVIRONMENT,
    NOW,
    QUEUE,
    environment,
    instance_type,
    only,
    quota,
)


def test_a_quota_below_one_instance(find, aws):
    finding = only(find({"GetServiceQuota": {"Quota": quota(0)}}), "service_quota")
    assert finding.certain
    assert finding.evidence == (
        "Quota 'Running On-Demand G and VT instances' (L-DB2E81BA) is 0 vCPUs, and one g5.xlarge "
        f"of {ENVIRONMENT} takes 4."
    )
    assert aws.asked("GetServiceQuota") == [{"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}]


@pytest.mark.parametrize(("used", "reached"), [(60, False), (61, True)])
def test_a_quota_that_is_used_up(find, aws, used, reached):
    points = [
        {"Timestamp": NOW - timedelta(minutes=25), "Maximum": 64.0},
        {"Timestamp": NOW - timedelta(minutes=5), "Maximum": float(used)},
    ]
    diagnosis = find({"GetMetricStatistics": {"Datapoints": points}})
    (asked,) = aws.asked("GetMetricStatistics")
    assert asked["Dimensions"][0] == {"Name": "Class", "Value": "G/OnDemand"}
    if not reached:
        assert diagnosis.findings == ()
        return
    finding = only(diagnosis, "service_quota")
    assert finding.certain is False
    assert "with 61 in use already" in finding.evidence


def test_on_spot_another_quota_counts(find, aws):
    spot = {"computeEnvironments": [environment(resources={"type": "SPOT"})]}
    changed = {"DescribeComputeEnvironments": spot, "GetServiceQuota": {"Quota": quota(0)}}
    assert "(L-3819A6DF) is 0 vCPUs" in only(find(changed), "service_quota").evidence
    assert aws.asked("GetServiceQuota") == [{"ServiceCode": "ec2", "QuotaCode": "L-3819A6DF"}]


def test_a_family_whose_quota_is_not_known_says_so(aws):
    aws.answers["DescribeInstanceTypes"] = {"InstanceTypes": [instance_type("hpc7a.12xlarge", 24)]}
    diagnosis = diagnose(aws.client, queue=QUEUE, now=NOW)
    assert diagnosis.unread == (
        "the service quota of vCPUs: the vCPU quota of hpc7a.12xlarge is not known here",
    )
