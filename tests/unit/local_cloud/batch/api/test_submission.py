"""What submit_job refuses, and which definition it takes."""

import pytest

from tests.unit.local_cloud.conftest import of_nodes

OTHER = {"targetNodes": "1:", "containerOverrides": {}}


pytestmark = pytest.mark.usefixtures("queue")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"jobQueue": "no-such-queue"}, "Job queue no-such-queue does not exist"),
        ({"jobDefinition": "no-such-definition"}, "no-such-definition does not exist"),
        ({"jobDefinition": "definition:7"}, "definition:7 does not exist"),
        ({"jobName": ""}, "jobName must be provided"),
        ({"jobName": "-starts-badly"}, "valid pattern"),
        ({"jobName": "has spaces"}, "valid pattern"),
        ({"jobName": "x" * 129}, "valid pattern"),
        *(
            ({"arrayProperties": {"size": size}}, f"between 2 and 10000, not {size}")
            for size in (0, 1, 10_001)
        ),
    ],
)
def test_names_and_sizes_that_are_refused(batch, change, message):
    assert message in batch.refused_submission(**change)


def test_a_definition_without_revision_is_the_latest_active_one(batch):
    arns = [batch.define() for _ in range(2)]
    batch.call("DeregisterJobDefinition", jobDefinition=arns[1])
    latest = arns[0].rpartition(":")[0]
    for named, revision in (("definition", 2), (latest, 2), ("definition:1", 1)):
        job = batch.describe(batch.submit(definition=named))
        assert job["jobDefinition"] == f"{latest}:{revision}"


def test_neither_a_deregistered_definition_nor_a_disabled_queue_takes_jobs(batch):
    batch.call("DeregisterJobDefinition", jobDefinition="definition:1")
    assert "not ACTIVE" in batch.refused_submission()
    batch.define()
    batch.call("UpdateJobQueue", jobQueue="queue", state="DISABLED")
    assert "must be ENABLED" in batch.refused_submission()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nodeOverrides": {"numNodes": 1001}}, "between 1 and 1000, not 1001"),
        ({"nodeOverrides": {"nodePropertyOverrides": [OTHER]}}, "Non matching targets - 1:"),
        ({"containerOverrides": {"command": ["x"]}}, "nodeOverrides"),
        ({"arrayProperties": {"size": 2}}, "array job"),
    ],
)
def test_impossible_nodes_are_refused(batch, overrides, message):
    batch.call("RegisterJobDefinition", **of_nodes())
    assert message in batch.refused_submission(**overrides)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        *(({"targets": one}, 'not support node ranges other than "0:"') for one in ("0", "0:1")),
        *(({"numNodes": count}, "numNodes") for count in (0, 1001)),
        *(({"mainNode": node}, "numNodes") for node in (2, -1)),
    ],
)
def test_definitions_of_impossible_nodes_are_refused(batch, fields, message):
    assert message in batch.refusal("RegisterJobDefinition", **of_nodes(**fields))
