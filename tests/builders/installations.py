"""What Terraform publishes of an installation, and the configuration that is read of it."""

import json

from batchmark.core.config import parse_config


def target(device, **changes):
    """With compute environments of its own if its queue is."""
    queue = changes.get("job_queue", f"arn:queue-{device}")
    return {
        "device": device,
        "instance_type": "any",
        "vcpus": 4,
        "memory_mib": 14336,
        "gpus": int(device == "cuda"),
        "job_queue": queue,
        "on_demand_queue": f"arn:queue-{device}-on-demand",
        "job_definition": f"arn:definition-{device}:1",
        "compute_environments": {"spot": f"{queue}/spot", "on_demand": f"{queue}/on-demand"},
        "timeout_seconds": 3600,
        "attempts": 3,
        "allow_cpu_fallback": False,
    } | changes


def published(**changes):
    return {
        "schema_version": 1,
        "name": "batchmark",
        "region": "us-east-1",
        "bucket": "results",
        "topic_arn": "arn:topic",
        "log_group": "/aws/batch/batchmark",
        "targets": {"g5.xlarge": target("cuda"), "c5.2xlarge": target("cpu")},
    } | changes


def configured(**changes):
    return parse_config(json.dumps(published(**changes)))


def own_types(**targets):
    """Targets of the instance types they are named after, each with changes to the usual one."""
    return {
        name: target("cuda" if name[0] in "gp" else "cpu", **{"instance_type": name} | changes)
        for name, changes in targets.items()
    }
