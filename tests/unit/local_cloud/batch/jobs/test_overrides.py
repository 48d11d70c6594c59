"""What a submission overrides, and how much of it."""

import pytest

from local_cloud.batch.jobs.overrides import MOST_CHARACTERS
from tests.stand_ins.local_batch import requirements

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
