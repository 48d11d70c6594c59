"""What Service Quotas says of the account's vCPUs."""

from datetime import timedelta

import pytest

from batchmark.diagnosis_quota import quota_code
from batchmark.exceptions import DiagnosisError
from tests.unit.diagnosis.answers import ENVIRONMENT, NOW, only, quota


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


@pytest.mark.parametrize(
    ("instance", "spot", "code"),
    [
        ("c5.2xlarge", False, "L-1216C47A"),
        ("im4gn.large", True, "L-34B43A08"),
        ("g4dn.xlarge", False, "L-DB2E81BA"),
        ("g6e.xlarge", True, "L-3819A6DF"),
        ("p5.48xlarge", False, "L-417A185B"),
        ("x2idn.16xlarge", True, "L-E3A00192"),
    ],
)
def test_the_code_of_a_quota(instance, spot, code):
    assert quota_code(instance, spot=spot) == code


def test_a_family_whose_quota_is_not_known_says_so():
    with pytest.raises(DiagnosisError, match=r"quota of hpc7a\.12xlarge is not known here"):
        quota_code("hpc7a.12xlarge", spot=False)
