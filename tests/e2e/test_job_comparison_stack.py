"""The stack for comparing foreign jobs on a local cloud: apply, re-plan clean, destroy."""

import json

import pytest

from batchmark.core.config import parse_config
from laptop.stack import STACKS
from tests.e2e.optional_stacks import life_of, value

NAME = "job_comparison"
GIVEN = {"var_file": STACKS / NAME / "local.tfvars"}


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    with life_of(NAME, tmp_path_factory.mktemp(NAME), lambda _: GIVEN, look) as found:
        yield found


def look(aws, outputs):
    return {
        "told": value(aws, outputs["ssm_parameter_name"]),
        "allowed": statements(aws, outputs["airflow_policy_arns"]["run"]),
    }


def statements(aws, policy_arn):
    """The statements of a policy, by their ids."""
    version = aws.client("iam").get_policy_version(PolicyArn=policy_arn, VersionId="v1")
    document = version["PolicyVersion"]["Document"]
    assert len(json.dumps(document, separators=(",", ":"))) <= 6144
    return {statement["Sid"]: statement for statement in document["Statement"]}


@pytest.mark.timeout(600)
def test_it_applies_replans_clean_and_destroys(life):
    assert life["changes"] == {}
    assert life["after"] == life["before"]


def test_airflow_is_told_of_a_bucket_and_no_targets(life):
    told = parse_config(life["told"])
    assert (told.name, told.targets) == ("comparison", {})
    assert told.bucket == "comparison-results-123456789012-us-east-1"


def test_airflow_may_submit_what_was_named_and_nothing_else(life):
    batch = "arn:aws:batch:us-east-1:123456789012"
    assert set(life["allowed"]["SubmitJobs"]["Resource"]) == {
        f"{batch}:job-queue/batchmark-c5-2xlarge",
        f"{batch}:job-queue/batchmark-g4dn-xlarge",
        f"{batch}:job-definition/batchmark_job_*:*",
    }
    assert "PublishAlerts" not in life["allowed"]


def test_airflow_may_look_at_hosts_of_clusters_that_batch_made(life):
    looked_at = life["allowed"]["LookAtHosts"]["Resource"]
    assert "arn:aws:ecs:us-east-1:123456789012:task/*Batch*" in looked_at
