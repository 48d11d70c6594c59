import pytest

from local_cloud.batch import nodes
from local_cloud.batch.container import merge, requirements
from local_cloud.batch.parameters import substitute
from local_cloud.batch.pool import Requirements


def test_parameters_are_filled_in_wherever_they_stand():
    command = ["run", "--size", "Ref::size", "s3://b/Ref::run_id/Ref::size/", "Ref::unknown"]
    assert substitute(command, {"size": "8", "run_id": "r1"}) == [
        "run",
        "--size",
        "8",
        "s3://b/r1/8/",
        "Ref::unknown",
    ]


def test_a_parameters_value_is_not_looked_at_again():
    assert substitute(["Ref::a"], {"a": "Ref::b", "b": "no"}) == ["Ref::b"]


def test_of_similar_names_the_whole_one_counts():
    assert substitute(["Ref::size_max"], {"size": "1", "size_max": "2"}) == ["2"]


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
        (
            needs(("VCPU", "2"), ("MEMORY", "8")),
            needs(("MEMORY", "9")),
            Requirements(2, 9, 0),
        ),
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
    ("target", "expected"),
    [("0:3", [0, 1, 2, 3]), (":1", [0, 1]), ("2:", [2, 3, 4]), ("3", [3]), (":", [0, 1, 2, 3, 4])],
)
def test_node_ranges(target, expected):
    assert list(nodes.indices(target, 5)) == expected


def properties(*targets):
    return {
        "nodeRangeProperties": [
            {"targetNodes": target, "container": {"image": target}} for target in targets
        ]
    }


@pytest.mark.parametrize("targets", [("0:", "1:2"), ("1:2", "0:")])
def test_of_nested_ranges_the_inner_one_wins(targets):
    images = [container["image"] for container in nodes.containers(properties(*targets), 4)]
    assert images == ["0:", "1:2", "1:2", "0:"]


def test_a_node_without_container_is_an_error():
    with pytest.raises(ValueError, match="no container for node 2 of 3"):
        nodes.containers(properties("0:1"), 3)


def test_node_overrides_by_node():
    overrides = {"nodePropertyOverrides": [{"targetNodes": "1:", "containerOverrides": {"a": 1}}]}
    assert nodes.overrides(overrides, 3) == [{}, {"a": 1}, {"a": 1}]
