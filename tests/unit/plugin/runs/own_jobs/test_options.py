"""What the operator submits an own job with."""

import pytest

from batchmark.core.errors import PlanError
from batchmark.runs.own_jobs.options import MOST_CHARACTERS, overrides
from batchmark.runs.own_jobs.wrapper import command
from tests.builders.watched_jobs import plan


def container_of(**changes):
    return overrides(plan(**changes))["container_overrides"]


def test_other_jobs_have_no_options():
    assert overrides(None) == {}


def test_a_job_runs_below_a_shell_or_as_it_is():
    assert container_of() == {"command": command(["python", "convert.py"])}
    assert container_of(shell=False) == {"command": ["python", "convert.py"]}
    assert container_of(shell=False, command=()) == {}


def test_the_definition_and_the_placeholders_go_to_batch():
    found = overrides(plan(parameters={"size": "64"}))
    assert (found["job_definition"], found["parameters"]) == ("arn:definition:3", {"size": "64"})


def test_a_check_is_told_by_variables():
    checked = container_of(environment={"N": "1"}, check="test -s out", output="out")
    assert checked["environment"] == [
        {"name": "N", "value": "1"},
        {"name": "BATCHMARK_CHECK", "value": "test -s out"},
        {"name": "BATCHMARK_OUTPUT", "value": "out"},
    ]


def test_only_what_differs_is_asked_for():
    asked = container_of(vcpus=2.0, memory_mib=512)["resourceRequirements"]
    assert asked == [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "512"}]


def test_what_ecs_would_refuse_is_refused_before_anything_starts():
    room = MOST_CHARACTERS - len(str(container_of()))
    with pytest.raises(PlanError, match=r"thumbnails's command, .* ECS takes 8,192: put a script"):
        overrides(plan(check="x" * room))
    overrides(plan(check="x" * (room - 1000)))
