"""A multi-node stack as it is published, and what a run of it asks for."""

import json

from batchmark.core.clusters.multi_node import parse_multi_node
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.scaling_plan import plan_scaling
from batchmark.runs.run_file_system import RunOfDag
from batchmark_job.result.scaling_options import ScalingRun
from tests.builders.installations import configured

RUN_ID = "scaling-1"
RUN = RunOfDag(
    installation="batchmark", dag_id="distributed_training_benchmark", run_id=RUN_ID, generation=0
)
FILE_SYSTEM = {
    "deployment_type": "SCRATCH_2",
    "storage_gib": 1200,
    "throughput": None,
    "version": "2.15",
    "subnet": "subnet-0123456789abcdef0",
    "security_group": "sg-0123456789abcdef0",
    "kms_key_arn": None,
    "repository": "s3://results/images",
    "folder": "/images",
    "id_parameter": "/batchmark/multi-node/file-system",
}


def published(**changes):
    return {
        "schema_version": 1,
        "name": "batchmark",
        "region": "us-east-1",
        "target": "p4d.24xlarge-nodes",
        "device": "cuda",
        "instance_type": "p4d.24xlarge",
        "vcpus": 96,
        "gpus": 8,
        "most_nodes": 20,
        "job_queue": "arn:queue-nodes",
        "job_definition": "arn:definition-nodes:1",
        "compute_environment": "nodes",
        "timeout_seconds": 3600,
        "allow_cpu_fallback": False,
        "mount_point": "/fsx",
        "scratch": "/scratch",
        "file_system": FILE_SYSTEM,
    } | changes


def stack(**changes):
    return parse_multi_node(json.dumps(published(**changes)))


def on_cpus(**changes):
    cpu = {"device": "cpu", "instance_type": "c5.2xlarge", "vcpus": 8, "gpus": 0}
    return stack(**cpu | {"target": "c5.2xlarge-nodes"} | changes)


def wanted(**changes):
    return parse_options(
        ScalingRun, {"node_counts": [1, 2, 4], "all_reduce_mib": [1, 16]} | changes
    )


def planned(nodes=None, *, repeats=1, **changes):
    nodes = nodes or stack()
    config = nodes.joined_to(configured(region=nodes.region))
    return plan_scaling(nodes, config, wanted(**changes), run_name="run", repeats=repeats)
