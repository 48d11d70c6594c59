"""How a job process ended, and what it has published in CloudWatch."""

import re

import pytest

NAMESPACE = "Batchmark"
DEADLINE_SECONDS = 300


def ended(process, code=0):
    """What it printed, on standard output and on standard error; it ends with this code."""
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == code, err
    return out, err


def metrics_of(cloudwatch, target):
    dimensions = [{"Name": "Target", "Value": target}]
    answer = cloudwatch.list_metrics(Namespace=NAMESPACE, Dimensions=dimensions)
    return {metric["MetricName"] for metric in answer["Metrics"]}


def skip_where_too_slow_to_publish(out):
    """The job gives publishing a few seconds, which a starved machine may not have."""
    if re.search(r"metrics not published: (timed out after|\w*TimeoutError)", out):
        pytest.skip("the machine is too busy to publish within the job's limit")
