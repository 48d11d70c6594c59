"""Stacks, the core one and those beside it: what Terraform says of them, and their inputs."""

import json
import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from laptop.aws_check.inputs import NAME, VARIABLES
from laptop.aws_check.step import NotCheckedError, Seen, StepError
from laptop.aws_check.steps import parts, stack
from laptop.aws_check.steps.local_airflow import Run
from laptop.errors import TerraformError
from laptop.stack import STACKS
from tests.builders import clusters
from tests.unit.laptop.aws_check.conftest import told_by

ROLE = "arn:aws:iam::123456789012:role/batchmark-check-airflow"
STACK_STEPS = {"multi_node": parts.apply_nodes, "eks": parts.apply_eks}


@pytest.mark.parametrize("on_aws", [True, False])
@pytest.mark.parametrize("name", STACK_STEPS)
def test_a_stack_is_the_checks_own(check_of, monkeypatch, name, on_aws):
    monkeypatch.setattr(parts, "init_one_at_a_time", lambda _: None)
    monkeypatch.setattr(parts.stack, "apply_by", lambda *_: Seen("applied"))
    monkeypatch.setattr(parts, "own_address", lambda: "198.51.100.7/32")
    check = check_of(on_aws=on_aws, parts=[parts.PARTS[name]])
    check.copy_terraform()
    check.pin(image_tag="cuda", cpu_image_tag="slim" if on_aws else None)
    check.terraform.outputs = lambda: {"airflow_role_arn": ROLE}
    STACK_STEPS[name](check)
    (terraform,) = check.stacks
    inputs = json.loads((terraform.stack_dir / "check.auto.tfvars.json").read_text())
    assert (inputs["name"], inputs["airflow_variables_prefix"]) == (NAME, VARIABLES)
    assert (inputs["local_cloud"], inputs["airflow_role_arns"]) == (not on_aws, [ROLE])
    declared = (STACKS / parts.PARTS[name].stack / "variables.tf").read_text()
    assert [given for given in inputs if f'variable "{given}"' not in declared] == []
    assert inputs["image_tag"] == ("slim" if (name, on_aws) == ("multi_node", True) else "cuda")
    if name == "eks":
        assert inputs["api_cidrs"] == ["198.51.100.7/32" if on_aws else "203.0.113.0/24"]


@pytest.mark.parametrize("documents", [0, 1])
def test_a_run_leaves_a_document(check_of, monkeypatch, documents):
    airflow = SimpleNamespace(
        start=lambda: None,
        measure=lambda *_: (Run("run", 0.25, ""), "report in the bucket"),
        refuse_denied=lambda usd: None,
        documents=lambda _: ["a document"] * documents,
    )
    monkeypatch.setattr(parts, "LocalAirflow", lambda _: airflow)
    if documents:
        seen = parts.run_dag(check_of(), "dag", {})
        assert seen == Seen("report in the bucket, 1 document", 0.25)
    else:
        with pytest.raises(StepError, match="0 documents") as error:
            parts.run_dag(check_of(), "dag", {})
        assert error.value.usd == 0.25


@pytest.mark.parametrize("group", ["ACTIVE", "CREATE_FAILED"])
def test_a_cluster_and_its_node_group_are_active(check_of, clients, group):
    cluster = clusters.published(name=NAME)
    parameter = {"Parameter": {"Value": cluster.model_dump_json()}}
    clients.answer("ssm", "get_parameter", parameter, {"Name": f"{VARIABLES}/batchmark_eks"})
    active = {"cluster": {"status": "ACTIVE", "version": "1.36"}}
    clients.answer("eks", "describe_cluster", active, {"name": cluster.cluster})
    asked = {"clusterName": cluster.cluster, "nodegroupName": cluster.node_group}
    clients.answer("eks", "describe_nodegroup", {"nodegroup": {"status": group}}, asked)
    told = f"Kubernetes 1.36: cluster ACTIVE, node group {group}"
    assert told_by(parts.cluster_active, check_of()) == (group == "ACTIVE", told)


@pytest.mark.parametrize("failing", [None, "aws", "kubectl"])
def test_the_manifests_are_applied_before_pods_run(check_of, monkeypatch, failing):
    called = []

    def run(argv, **options):
        called.append((argv, options["input"]))
        return SimpleNamespace(returncode=int(argv[0] == failing), stderr="Unauthorized\n")

    outputs = {"kubeconfig_command": "aws eks update-kubeconfig --name c", "manifests": "kind: A"}
    check = check_of()
    check.__dict__["terraform_of"] = lambda _: SimpleNamespace(outputs=lambda: outputs)
    monkeypatch.setattr(parts.subprocess, "run", run)
    monkeypatch.setattr(parts, "run_dag", lambda _, dag_id, conf: Seen(f"{dag_id} {conf}"))
    if failing:
        with pytest.raises(StepError, match=f"{failing} failed: Unauthorized"):
            parts.run_pods(check)
        return
    assert "eks_gpu_sharing_benchmark" in parts.run_pods(check).text
    with pytest.raises(NotCheckedError, match="does not run Kubernetes"):
        parts.run_pods(check_of(on_aws=False))
    config = ["--kubeconfig", str(check.folder / "kubeconfig")]
    assert called == [
        (["aws", "eks", "update-kubeconfig", "--name", "c", *config], ""),
        (["kubectl", *config, "apply", "-f", "-"], "kind: A"),
    ]


@pytest.mark.parametrize(
    ("said", "given"), [("198.51.100.7\n", "198.51.100.7/32"), ("<html>", None)]
)
def test_only_this_machine_reaches_the_clusters_api(monkeypatch, said, given):
    request = parts.httpx.Request("GET", parts.WHO_AM_I)
    answer = parts.httpx.Response(200, text=said, request=request)
    monkeypatch.setattr(parts.httpx, "get", lambda *_, **__: answer)
    if given:
        assert parts.own_address() == given
    else:
        with pytest.raises(ValueError, match="html"):
            parts.own_address()


@pytest.fixture
def plan(check_of, monkeypatch):
    """A step of a plan that says this."""
    monkeypatch.setattr(stack, "init_one_at_a_time", lambda _: None)

    def taken(step, said):
        check = check_of()
        check.terraform.with_inputs = lambda *_, **__: SimpleNamespace(stdout=said)
        return step(check)

    return taken


NONE = "No changes. Your infrastructure matches the configuration."
CREATED = "Plan: 102 to add, 0 to change, 0 to destroy."
CHANGED = "Plan: 0 to add, 1 to change, 0 to destroy."
READ_AGAIN = "Plan: 0 to add, 0 to change, 0 to destroy."
REPLACED = "Plan: 1 to import, 2 to add, 0 to change, 2 to destroy."


@pytest.mark.parametrize(
    ("step", "said", "ok"),
    [
        (stack.plan, CREATED, True),
        (stack.plan, NONE, False),
        (stack.plan, REPLACED, False),
        (stack.replan, NONE, True),
        (stack.replan, READ_AGAIN, True),
        (stack.replan, CHANGED, False),
        (stack.replan, REPLACED, False),
    ],
)
def test_a_first_plan_only_creates_and_a_second_changes_nothing(plan, step, said, ok):
    went_well, told = told_by(plan, step, said)
    assert went_well is ok
    assert ok or re.search("to destroy|no changes", told)


def test_a_plan_tells_which_roles_the_account_lacks(plan):
    """Terraform wraps a warning at 77 characters where there is no terminal."""
    create = "aws iam create-service-linked-role --aws-service-name"
    said = (
        f"{CREATED}\n\nWarning: Check block assertion failed\n\n"
        f"Before the first apply: {create}\nbatch.amazonaws.com; {create}\nspot.amazonaws.com\n"
    )
    roles = f"{create} batch.amazonaws.com; {create} spot.amazonaws.com"
    assert (
        plan(stack.plan, said).text
        == f"{CREATED[:-1]}; the account lacks service-linked roles: {roles}"
    )


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ((), "Apply complete! Resources: 9 added."),
        (("unexpected state 'INVALID', wanted 'VALID'",), "at the second attempt"),
        (("unexpected state 'INVALID'", "unexpected state 'INVALID'"), None),
        (("AccessDenied",), None),
    ],
)
def test_an_environment_that_met_a_new_role_is_made_at_the_second_try(
    check_of, monkeypatch, failures, said
):
    waited = []
    monkeypatch.setattr(stack.time, "sleep", waited.append)
    check = check_of()
    applied = SimpleNamespace(stdout="Apply complete! Resources: 9 added.")
    check.terraform.with_inputs = Mock(side_effect=[*map(TerraformError, failures), applied])
    if said:
        assert said in stack.apply(check).text
    else:
        with pytest.raises(TerraformError, match=failures[-1]):
            stack.apply(check)
    assert waited == [stack.ROLE_SECONDS] * ("INVALID" in str(failures))
