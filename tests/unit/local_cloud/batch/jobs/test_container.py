import pytest

from local_cloud.batch.jobs.container import merge, requirements, substitute
from local_cloud.batch.jobs.resources import Requirements


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
    assert requirements(properties, overrides) == expected


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
