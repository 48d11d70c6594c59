"""What Terraform publishes of targets."""

import pytest

from batchmark.core.config import parse_config
from batchmark.core.errors import ConfigError
from tests.builders.installations import configured, own_types

NAME = "g5.8xlarge-shared"


def shared(**changes):
    asked = {"instance_type": "g5.8xlarge", "gpus": 0, "sharing": "mps", "max_replicas": 20}
    return configured(targets=own_types(**{NAME: asked | changes})).targets[NAME]


def test_a_shared_target_says_how_and_among_how_many():
    target = shared()
    assert (target.instance_type, target.sharing, target.max_replicas) == ("g5.8xlarge", "mps", 20)


def test_an_older_terraform_publishes_no_sharing():
    target = configured().targets["g5.xlarge"]
    assert (target.sharing, target.max_replicas) == (None, None)


def test_where_only_existing_jobs_are_compared_there_are_no_targets_no_topic_and_no_log_group():
    config = parse_config(
        '{"schema_version": 1, "name": "lab", "region": "us-east-1", "bucket": "results", '
        '"targets": {}}'
    )
    assert (config.targets, config.topic_arn, config.log_group) == ({}, None, None)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sharing": "streams"}, f"targets.{NAME}.sharing: "),
        ({"max_replicas": 1}, f"targets.{NAME}.max_replicas: "),
        ({"max_replicas": None}, "sharing and max_replicas are set together"),
        ({"sharing": None}, "sharing and max_replicas are set together"),
    ],
)
def test_what_no_terraform_publishes_is_refused(changes, problem):
    with pytest.raises(ConfigError) as refused:
        shared(**changes)
    assert problem in str(refused.value)
