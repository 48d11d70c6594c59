"""What Terraform publishes of targets and own jobs."""

import pytest

from batchmark.core.config import parse_config
from batchmark.core.errors import ConfigError
from batchmark.core.own_jobs import JobAxis, parse_own_jobs
from tests.builders.installations import configured, own_types, target

NAME = "g5.8xlarge-shared"
TOGETHER = "sharing and max_replicas must be set together"


def of_shared(**changes):
    asked = {"instance_type": "g5.8xlarge", "gpus": 0, "sharing": "mps", "max_replicas": 20}
    return own_types(**{NAME: asked | changes})


def test_where_only_existing_jobs_are_compared_there_are_no_targets_no_topic_and_no_log_group():
    config = parse_config(
        '{"schema_version": 1, "name": "lab", "region": "us-east-1", "bucket": "results", '
        '"targets": {}}'
    )
    assert (config.targets, config.topic_arn, config.log_group) == ({}, None, None)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema_version": 2}, "schema_version: "),
        ({"buckets": "x"}, "buckets: Extra inputs"),
        ({"targets": {"g5.xlarge": target("tpu")}}, "targets.g5.xlarge.device: "),
        ({"targets": of_shared(sharing="streams")}, f"targets.{NAME}.sharing: "),
        ({"targets": of_shared(max_replicas=1)}, f"targets.{NAME}.max_replicas: "),
        ({"targets": of_shared(max_replicas=None)}, TOGETHER),
        ({"targets": of_shared(sharing=None)}, TOGETHER),
    ],
)
def test_what_no_terraform_publishes_is_refused(changes, problem):
    with pytest.raises(ConfigError) as refused:
        configured(**changes)
    assert problem in str(refused.value)


def test_a_missing_variable_names_the_way_to_get_it():
    with pytest.raises(ConfigError, match=r"'batchmark' not found: run `terraform apply`"):
        parse_config(None)
    with pytest.raises(ConfigError, match="set own_jobs in Terraform, run `terraform apply`"):
        parse_own_jobs(None)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "a\u202eb"])
def test_a_name_that_would_steer_a_line_is_refused_in_one(name):
    with pytest.raises(ConfigError) as refused:
        configured(targets={name: target("cpu"), "c5.2xlarge": target("cpu")})
    assert str(refused.value).isprintable()
    assert "contains a line break or another control character" in str(refused.value)


@pytest.mark.parametrize("name", ["start", "metric", "unit", "better"])
def test_no_axis_is_called_as_what_results_have(name):
    with pytest.raises(ValueError, match="start, metric, unit, better are reserved names"):
        JobAxis(parameter=name, sizes=[1])


def test_whole_sizes_stay_whole():
    assert [str(size) for size in JobAxis(parameter="n", sizes=[64, 0.5]).sizes] == ["64", "0.5"]
