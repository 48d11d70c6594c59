"""Runs eks_gpu_sharing_benchmark in this process, with moto's AWS and a cluster that stands in.

Started as a program of its own: Airflow reads its settings at its first import.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.paths import ROOT

DAG_ID = "eks_gpu_sharing_benchmark"


def main() -> None:
    """Print, as one line of JSON, what became of a run and of one whose image is missing."""
    folder = sys.argv[1]
    dags = Path(folder) / "dags"  # `dag.test` reads all that are in the folder, at each run
    dags.mkdir()
    (dags / f"{DAG_ID}.py").symlink_to(ROOT / "dags" / f"{DAG_ID}.py")
    os.environ |= {
        "AIRFLOW_HOME": folder,
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # EksHook's kubeconfig calls this Python by its name.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    from tests.stand_ins.moto_account import moto_account

    ask_for_one_token()
    with moto_account():
        print(json.dumps(runs()))


def runs() -> list[dict[str, Any]]:
    import boto3

    from batchmark.orchestration.pods import cluster_api, pods_watch
    from tests.builders.clusters import applied, published
    from tests.builders.installations import published as core
    from tests.e2e.one_dag import the_dag
    from tests.stand_ins.eks_account import EksAccount
    from tests.stand_ins.kubernetes_api.access import Access
    from tests.stand_ins.kubernetes_api.api import serving
    from tests.stand_ins.kubernetes_api.clients import CLUSTER, GROUPS, KEY
    from tests.stand_ins.measuring_pods import MeasuringPods

    os.environ["AWS_ACCESS_KEY_ID"] = KEY
    os.environ["AIRFLOW_VAR_BATCHMARK"] = json.dumps(core())
    os.environ["AIRFLOW_VAR_BATCHMARK_EKS"] = published().model_dump_json()
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="results")

    def put(key: str, text: str) -> None:
        s3.put_object(Bucket="results", Key=key, Body=text.encode())

    cluster = applied(MeasuringPods(put), gpus=0)
    with serving(cluster, Access(CLUSTER, GROUPS)) as url:
        follow_node_group(cluster, EksAccount(url))
        cluster_api.POLL_SECONDS = pods_watch.POLL_SECONDS = 0.2
        dag = the_dag(DAG_ID)
        dag.get_task("run_pods").partial_kwargs |= {"pending_seconds": 0.5, "retries": 0}
        found = [outcome(dag, cluster)]
        cluster.images.clear()
        return [*found, outcome(dag, cluster)]


def ask_for_one_token() -> None:
    """It counts for a quarter of an hour, and each is asked of an interpreter with Airflow."""
    from kubernetes.config.exec_provider import ExecProvider

    ask = ExecProvider.run
    told: list[Any] = []

    def first_told(self: Any, *previous: Any) -> Any:
        told.extend([] if told else [ask(self, *previous)])
        return told[0]

    ExecProvider.run = first_told


def follow_node_group(cluster: Any, account: Any) -> None:
    """Let a node come and go as the node group's size says."""
    from moto.eks.models import EKSBackend

    update = EKSBackend.update_nodegroup_config

    def resized(self: Any, *names: Any, **changes: Any) -> Any:
        answer = update(self, *names, **changes)
        cluster.nodes.clear()
        if account.group.scaling_config["desiredSize"]:
            cluster.add_node(4)
        return answer

    EKSBackend.update_nodegroup_config = resized


def outcome(dag: Any, cluster: Any) -> dict[str, Any]:
    run = dag.test(run_conf={"max_cost_usd": 60})
    return {
        "state": run.state,
        "tasks": {f"{ti.task_id}/{ti.map_index}": ti.state for ti in run.get_task_instances()},
        "left": [len(cluster.jobs), len(cluster.pods), len(cluster.nodes)],
    }


if __name__ == "__main__":
    main()
