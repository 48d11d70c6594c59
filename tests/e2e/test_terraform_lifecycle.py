"""The core stack on the local cloud: apply, re-plan clean, change, destroy without remains."""

from contextlib import closing

import pytest

from laptop.aws import AwsClients
from laptop.stack import PROFILE
from tests.e2e.remains import LISTINGS, remains
from tests.e2e.stacks import open_stack

# What lists every target in one document, and so changes in place when one comes or goes.
NAMES_ALL_TARGETS = {
    "aws_ssm_parameter.airflow",
    'module.airflow_access.aws_iam_policy.this["run"]',
    "module.monitoring.aws_cloudwatch_dashboard.this",
    "module.monitoring.aws_cloudwatch_event_rule.job_states",
    'module.monitoring.aws_cloudwatch_event_rule.notice["job_failed"]',
    'module.monitoring.aws_cloudwatch_event_rule.notice["queue_blocked"]',
    'module.monitoring.aws_cloudwatch_event_rule.notice["spot_interruption"]',
}


def actions(changes):
    return set(changes.values())


@pytest.mark.timeout(1800)
def test_core_stack_applies_changes_in_place_and_destroys(tmp_path):
    with open_stack(tmp_path / "stack") as stack:
        stack.start_cloud()
        empty = remains(stack)
        assert empty == {}
        stack.apply()
        assert len(remains(stack)) > len(LISTINGS)
        terraform = stack.terraform
        assert terraform.planned_changes(var_file=PROFILE) == {}

        more_vcpus = {
            "target_overrides": {
                "g4dn.xlarge": {"vcpus": 2, "memory_mib": 4096, "allow_cpu_fallback": True},
                "c5.2xlarge": {"vcpus": 2, "memory_mib": 4096, "max_vcpus": 128},
            }
        }
        assert terraform.planned_changes(var_file=PROFILE, variables=more_vcpus) == {
            f'module.batch.aws_batch_compute_environment.this["c5.2xlarge/{purchase}"]': "update"
            for purchase in ("spot", "on_demand")
        }
        terraform.apply(var_file=PROFILE, variables=more_vcpus)
        assert terraform.planned_changes(var_file=PROFILE, variables=more_vcpus) == {}

        more_targets = {**more_vcpus, "cpu_instance_types": ["c5.2xlarge", "m5.2xlarge"]}
        changes = terraform.planned_changes(var_file=PROFILE, variables=more_targets)
        ours = {address: action for address, action in changes.items() if "m5.2xlarge" in address}
        assert actions(ours) == {"create"}
        lists_all_targets = set(changes) - set(ours)
        assert lists_all_targets == NAMES_ALL_TARGETS, "another target's resource changes"
        assert actions({address: changes[address] for address in lists_all_targets}) == {"update"}
        terraform.apply(var_file=PROFILE, variables=more_targets)
        assert terraform.planned_changes(var_file=PROFILE, variables=more_targets) == {}

        changes = terraform.planned_changes(var_file=PROFILE, variables=more_vcpus)
        assert {address for address, action in changes.items() if action == "delete"} == set(ours)
        assert {address for address, action in changes.items() if action != "delete"} == (
            lists_all_targets
        )
        assert {changes[address] for address in lists_all_targets} == {"update"}
        terraform.apply(var_file=PROFILE, variables=more_vcpus)
        assert terraform.planned_changes(var_file=PROFILE, variables=more_vcpus) == {}

        new_template = {**more_vcpus, "volume_size_gib": 80}
        terraform.apply(var_file=PROFILE, variables=new_template)
        assert terraform.planned_changes(var_file=PROFILE, variables=new_template) == {}

        submit_a_revision_from_before_an_apply(stack, {**new_template, "image_tag": "0.2.0"})

        terraform.destroy(var_file=PROFILE)
        assert remains(stack) == {}
        assert terraform.outputs() == {}


def submit_a_revision_from_before_an_apply(stack, changed):
    """As a DAG run does that was planned before somebody applied."""
    target = stack.terraform.outputs()["targets"]["c5.2xlarge"]
    stack.terraform.apply(var_file=PROFILE, variables=changed)
    assert (
        stack.terraform.outputs()["targets"]["c5.2xlarge"]["job_definition"]
        != (target["job_definition"])
    )
    with closing(AwsClients(stack)) as aws:
        batch = aws.client("batch")
        job = batch.submit_job(
            jobName="planned-before",
            jobQueue=target["job_queue"],
            jobDefinition=target["job_definition"],
            containerOverrides={"command": ["true"]},
        )
        batch.terminate_job(jobId=job["jobId"], reason="that it was taken is enough")
