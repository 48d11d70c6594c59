"""The tasks specific to the DAG `eks_gpu_sharing_benchmark`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from batchmark.aws import node_group
from batchmark.aws.batch_targets import NO_ANSWER, why_unread
from batchmark.aws.boto_clients import client
from batchmark.aws.result_bucket import RunStore
from batchmark.core.config import Config
from batchmark.core.errors import ClusterError
from batchmark.core.run import PlannedJob
from batchmark.orchestration.settings import load_cluster, load_config
from batchmark.orchestration.tasks.approval import Arguments, approved_jobs
from batchmark.orchestration.tasks.budget import Proposal
from batchmark.orchestration.telling import fail, fail_if_refused, tell
from batchmark.orchestration.xcom import PODS_XCOM

START_SECONDS = 900  # judgment: three times the boot that laptop/aws_check/estimate.py assumes
POLL_SECONDS = 10  # judgment: short compared with a node's boot


def plan_pods(context: Context) -> Arguments:
    """Plan a run of pods, returning the same as `approved_jobs`."""
    from batchmark.runs.plans.pod_plan import plan_pods as plan
    from batchmark.runs.plans.sharing_plan import sharing_options

    params = context["params"]
    waiting = params["waiting_replicas"]

    def propose(config: Config, run_name: str) -> Proposal:
        wanted = sharing_options({**params, "modes": ["time_slicing"]})
        jobs = plan(load_cluster(), config, wanted, run_name=run_name, waiting=waiting)
        return Proposal(config, jobs)

    def arguments(_: Config, __: str, jobs: Sequence[PlannedJob]) -> Arguments:
        return [
            {"planned": job.model_dump(mode="json"), "begins_exclusive": number == 0 < waiting}
            for number, job in enumerate(jobs)
        ]

    return approved_jobs(context, propose, arguments)


def start_node(context: Context) -> None:
    """Request the GPU node, after checking Airflow's access to the cluster.

    Raises:
        AirflowSkipException: the run is a dry run, or nothing was planned.
        AirflowFailException: the cluster denies Airflow access.
    """
    from batchmark.orchestration.pods.cluster_api import ClusterApi, kubeconfig, kubernetes_hook

    config, cluster = load_config(), load_cluster()
    store = RunStore.of(config, context["run_id"])
    plan = store.plan()
    if plan.dry_run or not plan.jobs:
        raise AirflowSkipException("no job will run, so no node is started")
    with kubeconfig(cluster) as path, fail_if_refused(context):
        ClusterApi(cluster, kubernetes_hook(path).api_client).nodes()
    eks = client("eks", cluster.region)
    try:
        node_group.start(eks, cluster, dag_id=context["ti"].dag_id, run_id=context["run_id"])
    except BaseException:
        # The teardown does not run after a setup that failed, and EKS may have got the call.
        try:
            node_group.end(eks, cluster)
        except NO_ANSWER as error:
            tell(f"The node of {cluster.cluster} could not be ended: {why_unread(error)}")
        raise
    tell(f"Requested a {cluster.instance_type} in {cluster.cluster}.")


def wait_for_node(context: Context) -> None:
    """Wait until the node is ready.

    Raises:
        AirflowFailException: the node wasn't ready in time; the message includes EKS's reason.
    """
    from batchmark.orchestration.pods.cluster_api import ClusterApi, kubeconfig, kubernetes_hook

    cluster = load_cluster()
    until = time.monotonic() + START_SECONDS
    with kubeconfig(cluster) as path:
        api = ClusterApi(cluster, kubernetes_hook(path).api_client)
        while not (nodes := api.nodes()):
            if time.monotonic() >= until:
                issues = node_group.describe(client("eks", cluster.region), cluster).issues
                why = "; ".join(issues) or "EKS reports no problem, so the node may just be slow"
                reason = (
                    f"node group {cluster.node_group} of {cluster.cluster} has no ready node "
                    f"after {START_SECONDS} s: {why}"
                )
                fail(context, reason, ClusterError(reason))
            time.sleep(POLL_SECONDS)
    tell(f"Node {nodes[0]['metadata']['name']} is ready.")


def end_node() -> None:
    """Ask EKS to end the node, however the run ended."""
    cluster = load_cluster()
    node_group.end(client("eks", cluster.region), cluster)
    tell(f"The node of {cluster.cluster} is being ended.")


def collect_results(context: Context, run_task_id: str) -> str:
    """Collect the run's results as `run.collect_results` does, and return their key."""
    from batchmark.orchestration.tasks.run import record, submitted_plan
    from batchmark.runs.pod_collecting import EndedPods, collect_pods

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    plan = submitted_plan(context, store, run_task_id)
    reported = context["ti"].xcom_pull(
        task_ids=run_task_id, key=PODS_XCOM, map_indexes=range(len(plan.jobs))
    )
    collected = collect_pods(
        store,
        run_id=context["run_id"],
        planned=plan.jobs,
        ended=[EndedPods.model_validate(one) if one else None for one in reported],
    )
    return record(context, config, store, plan, collected)
