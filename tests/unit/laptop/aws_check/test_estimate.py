"""What a check applies, by inputs of its own and none of the user's, and what it costs at most."""

import json
import os
import re
from datetime import UTC, datetime

import pytest

from batchmark.core.prices import load_prices
from batchmark.runs.budget import worst_case
from batchmark.runs.plans.pod_plan import plan_pods
from batchmark.runs.plans.scaling_plan import plan_scaling
from batchmark_job.result.scaling_options import ScalingRun
from batchmark_job.result.sharing_options import SharingOptions
from laptop.aws_check.account import Account
from laptop.aws_check.command import uses_of
from laptop.aws_check.estimate import CPU_TYPE, GPU_TYPE, JOB_SECONDS, Use, estimate, refuse_above
from laptop.aws_check.inputs import SHARED, inputs_of
from laptop.aws_check.steps.local_airflow import MAX_COST_USD
from laptop.aws_check.steps.parts import NODE_TYPE, PARTS, PULL_SECONDS, SHARED_BY_PODS, TRAINED
from laptop.errors import LaptopError
from laptop.stack import ROOT
from tests.builders import clusters
from tests.builders.installations import configured
from tests.builders.scaling import on_cpus


def test_a_use_by_hand():
    use = Use(CPU_TYPE, jobs=2, own_jobs=1, starts=2)
    assert use.seconds == 2 * 600 + 300 + 2 * (300 + 600)
    found = estimate(load_prices(), [use])
    hosts, beside, _ = found.parts
    assert hosts.usd == pytest.approx(0.34 * 3300 / 3600)
    assert beside.usd == pytest.approx((20.12 / 730 + 0.005) * 3300 / 3600)
    assert found.usd == pytest.approx(0.40)
    refuse_above(estimate(load_prices()), 2)  # the usual budget is enough
    (nodes,), (pods,) = PARTS["multi_node"].uses, PARTS["eks"].uses
    assert nodes.seconds == 2 * (300 + 1800 + 600 + 600)
    _, (job,) = jobs_of_pods()
    assert pods.seconds >= job.limits.attempts * job.limits.timeout_seconds


def test_without_a_price_nothing_is_started():
    prices = load_prices().only([GPU_TYPE])
    with pytest.raises(
        LaptopError, match=f"no price is known for {re.escape(CPU_TYPE)} in us-east-1"
    ):
        estimate(prices)


@pytest.mark.parametrize("parts", [(), ("sharing",)])
def test_what_is_applied_is_what_is_counted(parts):
    account = Account("123456789012", "us-east-1", "arn", on_aws=True)
    parts = [PARTS[name] for name in parts]
    inputs = inputs_of(account, [part.core_inputs(account) for part in parts])
    types = {*inputs["gpu_instance_types"], *inputs["cpu_instance_types"]}
    types |= {shared["instance_type"] for shared in inputs["shared_targets"].values()}
    assert types == {use.instance_type for use in uses_of(parts)}
    for job in inputs["target_overrides"].values():
        assert (job["timeout_seconds"], job["attempts"]) == (JOB_SECONDS, 1)
    assert inputs["target_overrides"][CPU_TYPE]["purchasing"] == "on_demand"


def jobs_of_nodes():
    nodes = on_cpus(instance_type=NODE_TYPE, most_nodes=2, timeout_seconds=JOB_SECONDS)
    config = nodes.joined_to(configured())
    form = {name: TRAINED[name] for name in TRAINED if name in ScalingRun.model_fields}
    return config, plan_scaling(nodes, config, ScalingRun(**form), run_name="run")


def jobs_of_pods():
    told = clusters.published(
        instance_type=GPU_TYPE,
        gpus=1,
        vcpus=4,
        memory_mib=16384,
        replicas_per_gpu=2,
        timeout_seconds=JOB_SECONDS + PULL_SECONDS,
    )
    wanted = SharingOptions(replicas=tuple(SHARED_BY_PODS["replicas"]))
    return configured(), plan_pods(told, configured(), wanted, run_name="run")


@pytest.mark.parametrize("planned", [jobs_of_nodes, jobs_of_pods])
def test_the_run_of_a_part_is_within_what_its_airflow_may_spend(planned):
    config, jobs = planned()
    assert len(jobs) == 1
    worst = worst_case(config, jobs, load_prices(), datetime(2026, 12, 1, tzinfo=UTC))
    assert worst.usd <= MAX_COST_USD


def test_terraform_is_copied_without_what_is_the_users(check_of):
    check = check_of()
    check.copy_terraform()
    copy = check.folder / "terraform"
    assert (copy / "main.tf").read_text() == (ROOT / "terraform" / "main.tf").read_text()
    assert (copy / ".terraform.lock.hcl").exists()
    assert {path.name for path in copy.rglob("*.tfvars*")} == {"check.auto.tfvars.json"}
    for part in filter(None, (part.stack for part in PARTS.values())):
        assert (copy / "stacks" / part / "main.tf").exists()
    assert not list(copy.rglob("tests"))
    assert check.folder.stat().st_mode & 0o77 == 0
    check.pin(image_tag="check")
    inputs = json.loads((copy / "check.auto.tfvars.json").read_text())
    assert inputs == inputs_of(check.account) | {"image_tag": "check"}


def test_inputs_of_the_environment_are_left_out(check_of, monkeypatch):
    monkeypatch.setattr(
        os,
        "environ",
        {
            "PATH": "/bin",
            "TF_VAR_name": "mine",
            "TF_CLI_ARGS_apply": "-var-file=mine.tfvars",
            "TF_CLI_ARGS_init": "-plugin-dir=/opt",
            "TF_WORKSPACE": "mine",
        },
    )
    assert check_of().environment == {
        "PATH": "/bin",
        "TF_CLI_ARGS_init": "-plugin-dir=/opt",
        "AWS_REGION": "us-east-1",
    }


def test_a_local_cloud_is_said_to_be_one(check_of):
    local, real = (
        inputs_of(account, [part.core_inputs(account) for part in PARTS.values()])
        for account in (check_of(on_aws=on_aws).account for on_aws in (False, True))
    )
    assert (local["local_cloud"], real["local_cloud"]) == (True, False)
    falling_back = [job.get("allow_cpu_fallback") for job in real["target_overrides"].values()]
    assert True not in falling_back
    assert SHARED in real["shared_targets"]
