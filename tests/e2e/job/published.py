"""What a job process has published in CloudWatch."""

import re

import pytest

NAMESPACE = "Batchmark"


def metrics_of(cloudwatch, target):
    dimensions = [{"Name": "Target", "Value": target}]
    answer = cloudwatch.list_metrics(Namespace=NAMESPACE, Dimensions=dimensions)
    return {metric["MetricName"] for metric in answer["Metrics"]}


def skip_where_too_slow_to_publish(out):
    """The job gives publishing a few seconds, which a starved machine may not have."""
    if re.search(r"metrics not published: (not done within|\w*TimeoutError)", out):
        pytest.skip("the machine is too busy to publish within the job's limit")
