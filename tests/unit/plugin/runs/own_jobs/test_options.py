"""What the operator submits an own job with."""

import json

import pytest

from batchmark.core.errors import PlanError
from batchmark.runs.own_jobs.options import MOST_CHARACTERS, ROOM_FOR_BATCH, container_overrides
from batchmark.runs.own_jobs.wrapper import command
from tests.builders.watched_jobs import plan


def container_of(**changes):
    return container_overrides(plan(**changes))


def test_a_job_runs_below_a_shell_or_as_it_is():
    assert container_of() == {"command": command(["python", "convert.py"])}
    assert container_of(shell=False) == {"command": ["python", "convert.py"]}
    assert container_of(shell=False, command=()) == {}


def test_a_check_is_told_by_variables():
    checked = container_of(environment={"N": "1"}, check="test -s out", output="out")
    assert checked["environment"] == [
        {"name": "N", "value": "1"},
        {"name": "BATCHMARK_CHECK", "value": "test -s out"},
        {"name": "BATCHMARK_OUTPUT", "value": "out"},
    ]


def test_only_what_differs_is_asked_for():
    asked = container_of(vcpus=2.0, memory_mib=512, gpus=1)["resourceRequirements"]
    assert [tuple(each.values()) for each in asked] == [
        ("VCPU", "2"),
        ("MEMORY", "512"),
        ("GPU", "1"),
    ]


def test_what_ecs_would_refuse_is_refused_before_anything_starts():
    room = MOST_CHARACTERS - ROOM_FOR_BATCH - len(json.dumps(container_of()))
    with pytest.raises(PlanError, match=r"thumbnails's command, .* ECS takes 8,192: put a script"):
        container_of(check="x" * room)
    container_of(check="x" * (room - 100))
