"""What a job's container is made of: its definition, and what a submission overrides."""

import pytest

from local_cloud.batch.jobs import container
from local_cloud.batch.jobs.container import merge, substitute
from local_cloud.batch.jobs.overrides import MOST_CHARACTERS
from local_cloud.batch.jobs.resources import Requirements
from tests.stand_ins.local_batch import requirements


def needs(*pairs):
    return {"resourceRequirements": [{"type": kind, "value": value} for kind, value in pairs]}


@pytest.mark.parametrize(
    ("properties", "overrides", "expected"),
    [
        (needs(("VCPU", "2"), ("MEMORY", "512")), {}, Requirements(2, 512, 0)),
        (needs(("VCPU", "0.25"), ("MEMORY", "4"), ("GPU", "1")), {}, Requirements(0.25, 4, 1)),
        ({"vcpus": 2, "memory": 512}, {}, Requirements(2, 512, 0)),
        ({"vcpus": 2, "memory": 512}, {"vcpus": 3}, Requirements(3, 512, 0)),
        (needs(("VCPU", "2"), ("MEMORY", "8")), {"vcpus": 3}, Requirements(2, 8, 0)),
        (needs(("VCPU", "2"), ("MEMORY", "8")), needs(("MEMORY", "9")), Requirements(2, 9, 0)),
    ],
)
def test_requirements(properties, overrides, expected):
    assert container.requirements(properties, overrides) == expected


def test_merge_leaves_the_definition_untouched():
    properties = {"command": ["a"], "environment": [{"name": "X", "value": "1"}]}
    merged = merge(properties, {"environment": [{"name": "X", "value": "2"}]}, {})
    assert merged.environment == {"X": "2"}
    assert properties["environment"] == [{"name": "X", "value": "1"}]
    assert merged.log_group == "/aws/batch/job"
    assert merged.log_stream_prefix("definition") == "definition"


@pytest.mark.parametrize(
    ("word", "filled_in"),
    [
        ("Ref::size", "8"),
        ("s3://b/Ref::run_id/Ref::size/", "s3://b/r1/8/"),
        ("Ref::unknown", "Ref::unknown"),
        ("Ref::again", "Ref::size"),
        ("Ref::size_max", "9"),
    ],
)
def test_parameters_are_filled_in_once_and_as_a_whole(word, filled_in):
    parameters = {"size": "8", "run_id": "r1", "again": "Ref::size", "size_max": "9"}
    assert substitute(["run", word], parameters) == ["run", filled_in]


TOO_LONG = f"Container Overrides length must be at most {MOST_CHARACTERS}"


@pytest.fixture
def submit(batch):
    """Submit a job whose definition's command ends with the parameter `word`."""
    batch.environment()
    batch.queue()
    environment = [{"name": "A", "value": "1"}]
    container = {"command": ["echo", "Ref::word"], "environment": environment}
    batch.define(container=container, parameters={"word": "hello", "mark": "!"})
    batch.containers.may_end.set()
    return lambda **fields: batch.finish(batch.submit(**fields))


def variable(characters):
    return {"environment": [{"name": "LONG", "value": "x" * characters}]}


def test_a_submission_overrides_command_variables_and_resources(submit):
    changed = {
        "environment": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
        "resourceRequirements": requirements(VCPU=2, MEMORY=8),
    }
    command = {"command": ["sh", "-c", "echo $(HOME) Ref::word Ref::mark"]}
    job = submit(containerOverrides=command | changed, parameters={"word": "bye"})
    assert job["status"] == "SUCCEEDED"
    assert job["container"]["command"] == ["sh", "-c", "echo $(HOME) bye !"]
    assert job["container"].items() >= changed.items()


@pytest.mark.parametrize(
    "fields",
    [
        {"containerOverrides": variable(MOST_CHARACTERS)},
        {"containerOverrides": variable(MOST_CHARACTERS - 100)},  # Batch's own count, too
        {"containerOverrides": {"command": ["echo", "x" * MOST_CHARACTERS]}},
        {"parameters": {"word": "x" * MOST_CHARACTERS}},
    ],
)
def test_a_job_with_long_overrides_fails_before_it_starts(submit, batch, fields):
    job = submit(**fields)
    assert (job["status"], job["statusReason"]) == ("FAILED", TOO_LONG)
    assert job["attempts"] == []
    assert batch.containers.started == []
    shorter = submit(containerOverrides=variable(MOST_CHARACTERS - 400))
    assert shorter["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"parameters": {"word": "x" * 31_000}}, "Job size must be less than 30 KiB, got 30 KiB"),
        (
            {"containerOverrides": {"command": ["echo", ""]}},
            "containerOverrides.command can't contain an empty string",
        ),
    ],
)
@pytest.mark.usefixtures("submit")
def test_what_submit_job_refuses(batch, fields, message):
    assert batch.refused_submission(**fields) == message
