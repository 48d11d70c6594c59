"""Defines a check's optional parts, selected with `WITH=`: their stacks, costs and steps."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any

import httpx

from batchmark.core.clusters import cluster, multi_node
from batchmark.core.formatting import count
from laptop.aws_check.account import Account
from laptop.aws_check.check import INPUTS, Check, Part
from laptop.aws_check.estimate import GPU_TYPE, JOB_SECONDS, Cost, Use
from laptop.aws_check.inputs import NAME, ONCE, SHARED, VARIABLES
from laptop.aws_check.step import NotCheckedError, Seen, Step, StepError
from laptop.aws_check.steps import jobs, stack
from laptop.aws_check.steps.local_airflow import LocalAirflow
from laptop.aws_check.steps.sequence import (
    AIRFLOW,
    APPLY_IMAGE,
    CPU_JOB,
    CPU_QUOTA,
    ON_DEMAND_JOB,
    ON_DEMAND_QUOTA,
)
from laptop.demo import DISTRIBUTED_DAG_ID
from laptop.stack import MULTI_NODE, init_one_at_a_time

EKS = "eks_gpu_sharing"
EKS_DAG_ID = "eks_gpu_sharing_benchmark"
NODE_TYPE = "c5.xlarge"  # two nodes have as many vCPUs as the host of the CPU target
NODE_WAITS_SECONDS = 1800  # after which the job is cancelled
NODES_STACK, NODES, TRAINING = "multi_node stack", "nodes' environment", "training on two nodes"
EKS_STACK, CLUSTER, PODS = "EKS stack", "EKS cluster", "pods"
# Synthetic images only, as files would need a file system.
TRAINED: dict[str, Any] = {
    "node_counts": [2],
    "batch": 4,
    "image": 64,
    "steps": 12,
    "data": ["synthetic"],
    "all_reduce_mib": [1],
    "strong_scaling": False,
    "repeats": 1,
    "reruns": False,
}
SHARED_BY_PODS: dict[str, Any] = {"waiting_replicas": 0, "replicas": [2]}
# AWS's own service; answers with the caller's IPv4 address
WHO_AM_I = "https://checkip.amazonaws.com"
OF_NOBODY = "203.0.113.0/24"  # for documentation, by RFC 5737
# From docs/runbook.md, "What it costs while idle": a NAT gateway at $0.045, its address at $0.005.
NAT_USD, NAT_HOURS = 0.05, 5
# From docs/eks-gpu-sharing.md, "What it costs". Kept until the end, as another part may follow.
CONTROL_PLANE_USD, CONTROL_PLANE_HOURS = 0.10, 5
# For pulling a pod's image, which counts towards its time limit, unlike a Batch job's (inferred).
PULL_SECONDS = 900


def sharing_steps(check: Check) -> list[Step]:
    expected = "two jobs at the same time on one host, both SUCCEEDED"
    needs = (ON_DEMAND_JOB,)
    return [Step("shared GPU", expected, partial(jobs.sharing, check), needs)]


def sharing_inputs(account: Account) -> dict[str, Any]:
    local = not account.on_aws
    shared = {"instance_type": GPU_TYPE, "mode": "time_slicing", "max_replicas": 2}
    limits = ONCE | ({"memory_mib": 1536} if local else {})
    return {
        "shared_targets": {SHARED: shared},
        "target_overrides": {SHARED: {**limits, "allow_cpu_fallback": local}},
    }


def multi_node_steps(check: Check) -> list[Step]:
    return [
        Step(NODES_STACK, "no error", partial(apply_nodes, check), (APPLY_IMAGE, CPU_QUOTA)),
        Step(
            NODES,
            "ENABLED and VALID, and so is its queue",
            partial(nodes_environment, check),
            (NODES_STACK,),
        ),
        Step(
            TRAINING,
            "success, a result document from two nodes, and no refused call",
            partial(run_dag, check, DISTRIBUTED_DAG_ID, TRAINED),
            (NODES, AIRFLOW, CPU_JOB),
        ),
    ]


def apply_nodes(check: Check) -> Seen:
    local = not check.account.on_aws
    return apply_beside(
        check,
        MULTI_NODE,
        image_tag=check.pinned("cpu_image_tag") or check.pinned("image_tag"),
        instance_type=NODE_TYPE,
        most_nodes=2,
        runnable_timeout_seconds=NODE_WAITS_SECONDS,
        volume_size_gib=64,
        **({"job_vcpus": 1, "job_memory_mib": 1536} if local else {}),
    )


def nodes_environment(check: Check) -> Seen:
    nodes = multi_node.parse_multi_node(check.published(multi_node.VARIABLE))
    config = nodes.joined_to(check.config)
    return stack.environments_of(check, config, {nodes.target: config.targets[nodes.target]})


def eks_steps(check: Check) -> list[Step]:
    return [
        Step(EKS_STACK, "no error", partial(apply_eks, check), (APPLY_IMAGE, ON_DEMAND_QUOTA)),
        Step(
            CLUSTER,
            "ACTIVE, and so is its node group",
            partial(cluster_active, check),
            (EKS_STACK,),
        ),
        Step(
            PODS,
            "success, a result document from two pods, and no refused call",
            partial(run_pods, check),
            (CLUSTER, AIRFLOW, ON_DEMAND_JOB),
        ),
    ]


def apply_eks(check: Check) -> Seen:
    return apply_beside(
        check,
        EKS,
        image_tag=check.pinned("image_tag"),
        instance_type=GPU_TYPE,
        replicas_per_gpu=2,
        timeout_seconds=JOB_SECONDS + PULL_SECONDS,
        log_retention_days=1,
        api_cidrs=[own_address() if check.account.on_aws else OF_NOBODY],
    )


def own_address() -> str:
    """Return this machine's IP address, as AWS sees it, in CIDR notation (/32)."""
    said = httpx.get(WHO_AM_I, timeout=30).raise_for_status().text.strip()
    return f"{ip_address(said)}/32"


def cluster_active(check: Check) -> Seen:
    told = cluster.parse_cluster(check.published(cluster.VARIABLE))
    eks = check.clients("eks")
    found = eks.describe_cluster(name=told.cluster)["cluster"]
    group = eks.describe_nodegroup(clusterName=told.cluster, nodegroupName=told.node_group)
    statuses = (found["status"], group["nodegroup"]["status"])
    seen = f"Kubernetes {found['version']}: cluster {statuses[0]}, node group {statuses[1]}"
    if statuses != ("ACTIVE", "ACTIVE"):
        raise StepError(seen)
    return Seen(seen)


def run_pods(check: Check) -> Seen:
    """Apply the EKS stack's manifests as the cluster's creator, then run the GPU-sharing DAG."""
    if not check.account.on_aws:
        raise NotCheckedError("a local cloud does not run Kubernetes")
    outputs = check.terraform_of(EKS).outputs()
    kubeconfig = str(check.folder / "kubeconfig")
    login = [*shlex.split(str(outputs["kubeconfig_command"])), "--kubeconfig", kubeconfig]
    _call(check, login)
    apply = ["kubectl", "--kubeconfig", kubeconfig, "apply", "-f", "-"]
    _call(check, apply, given=str(outputs["manifests"]))
    return run_dag(check, EKS_DAG_ID, SHARED_BY_PODS)


def _call(check: Check, argv: list[str], given: str = "") -> None:
    done = subprocess.run(
        argv, input=given, env=check.environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StepError(f"{argv[0]} failed: {done.stderr.strip()[-500:]}")


def apply_beside(check: Check, name: str, **inputs: Any) -> Seen:
    """Apply an optional stack with the given inputs and those shared by all optional stacks."""
    terraform = check.terraform_of(name)
    usual = {
        "name": NAME,
        "region": check.account.region,
        "local_cloud": not check.account.on_aws,
        "airflow_variables_prefix": VARIABLES,
        "airflow_role_arns": [check.terraform.outputs()["airflow_role_arn"]],
        "timeout_seconds": JOB_SECONDS,
    }
    (terraform.stack_dir / INPUTS).write_text(json.dumps(usual | inputs, indent=2))
    init_one_at_a_time(terraform)
    return stack.apply_by(check, terraform)


def run_dag(check: Check, dag_id: str, conf: Mapping[str, Any]) -> Seen:
    """Run a DAG on a freshly started Airflow so that the logs contain only this run."""
    airflow = LocalAirflow(check)
    airflow.start()
    run, told = airflow.measure(dag_id, conf)
    airflow.refuse_denied(run.usd)
    documents = airflow.documents(run)
    told = f"{told}, {count(len(documents), 'document')}"
    if not documents:
        raise StepError(told, run.usd)
    return Seen(told, run.usd)


PARTS = {
    part.name: part
    for part in (
        Part(
            "sharing",
            # Two jobs at once on one host.
            (Use(GPU_TYPE, jobs=1, own_jobs=0, starts=1),),
            sharing_steps,
            sharing_inputs,
        ),
        Part(
            "multi_node",
            # One job on two nodes.
            (Use(NODE_TYPE, jobs=2, own_jobs=0, starts=2, waiting=2 * NODE_WAITS_SECONDS),),
            multi_node_steps,
            lambda _: {"enable_nat_gateway": True},
            beside=(Cost(f"NAT gateway, {NAT_HOURS} hours", NAT_USD * NAT_HOURS),),
            stack=MULTI_NODE,
        ),
        Part(
            "eks",
            # As long as pod_plan.py allows: two attempts of 3,120 s.
            (Use(GPU_TYPE, jobs=2, own_jobs=0, starts=6),),
            eks_steps,
            beside=(
                Cost(
                    f"EKS control plane, {CONTROL_PLANE_HOURS} hours",
                    CONTROL_PLANE_USD * CONTROL_PLANE_HOURS,
                ),
            ),
            stack=EKS,
            programs=("aws", "kubectl"),
        ),
    )
}
