"""What an account lets start, before anything is made."""

import pytest

from laptop.aws_check.step import StepError
from laptop.aws_check.steps import parts, quotas, sequence
from laptop.aws_check.steps.parts import PARTS
from tests.unit.laptop.aws_check.conftest import told_by


@pytest.mark.parametrize("too_small", ["CPU quota", "GPU quota on Spot", "GPU quota On-Demand"])
def test_each_quota_fails_alone_and_says_what_to_ask_for(check_of, clients, too_small):
    codes = {
        "CPU quota": "L-1216C47A",
        "GPU quota on Spot": "L-3819A6DF",
        "GPU quota On-Demand": "L-DB2E81BA",
    }
    failed = {}
    for step in sequence.steps_of(check_of()):
        if code := codes.get(step.name):
            name, count = ("c5.2xlarge", 8) if step.name == "CPU quota" else ("g4dn.xlarge", 4)
            types = [{"InstanceType": name, "VCpuInfo": {"DefaultVCpus": count}}]
            clients.answer("ec2", "describe_instance_types", {"InstanceTypes": types})
            quota = {"QuotaCode": code, "Value": 0.0 if step.name == too_small else float(count)}
            clients.answer("service-quotas", "get_service_quota", {"Quota": quota})
            try:
                assert f"({code}): {count} vCPUs" in step.look().text
            except StepError as error:
                failed[step.name] = str(error)
    (told,) = failed.values()
    assert f"({codes[too_small]}): 0 vCPUs" in told
    assert "in the Service Quotas console" in told
    assert list(failed) == [too_small]


def test_parts_add_steps_and_a_job_needs_the_quota_that_it_is_bought_by_or_a_job_that_was(check_of):
    steps = sequence.steps_of(check_of(parts=PARTS.values()))
    names = [step.name for step in steps]
    assert all(set(step.needs) <= set(names[:number]) for number, step in enumerate(steps))
    usual = [step.name for step in sequence.steps_of(check_of())]
    assert [name for name in names if name not in usual] == [
        "shared GPU",
        *(parts.NODES_STACK, parts.NODES, parts.TRAINING),
        *(parts.EKS_STACK, parts.CLUSTER, parts.PODS),
    ]
    needs = {
        step.name: [name for name in step.needs if "quota" in name or "job" in name]
        for step in steps
    }
    assert {name: names for name, names in needs.items() if names} == {
        "CPU job": ["CPU quota"],
        "failing job": ["CPU job"],
        "message": ["failing job"],
        "GPU job on Spot": ["GPU quota on Spot"],
        "GPU job On-Demand": ["GPU quota On-Demand"],
        "telemetry": ["CPU job"],
        "benchmark": ["CPU job", "GPU job On-Demand", "GPU quota on Spot"],
        "own job": ["CPU job", "GPU job On-Demand", "GPU quota on Spot"],
        "shared GPU": ["GPU job On-Demand"],
        "multi_node stack": ["CPU quota"],
        "training on two nodes": ["CPU job"],
        "EKS stack": ["GPU quota On-Demand"],
        "pods": ["GPU job On-Demand"],
    }


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        (
            ["g4dn.xlarge", "c5.2xlarge", "g4dn.xlarge"],
            "g4dn.xlarge in 2 zones, c5.2xlarge in 1 zone",
        ),
        (
            ["c5.2xlarge"],
            "g4dn.xlarge in 0 zones, c5.2xlarge in 1 zone; not offered in this region: g4dn.xlarge",
        ),
    ],
)
def test_zones_are_counted_by_type(check_of, clients, offered, told):
    found = [{"InstanceType": name, "Location": f"us-east-1{name}"} for name in offered]
    clients.answer("ec2", "describe_instance_type_offerings", {"InstanceTypeOfferings": found})
    went_well, said = told_by(quotas.zones, check_of())
    assert went_well is ("not offered" not in told)
    assert said.partition(" (")[0] == told
