import pytest

from local_cloud.batch.jobs import node_ranges


@pytest.mark.parametrize(
    ("target", "expected"),
    [("0:3", [0, 1, 2, 3]), (":1", [0, 1]), ("2:", [2, 3, 4]), ("3", [3]), (":", [0, 1, 2, 3, 4])],
)
def test_node_ranges(target, expected):
    assert list(node_ranges.indices(target, 5)) == expected


def properties(*targets):
    return {
        "nodeRangeProperties": [
            {"targetNodes": target, "container": {"image": target}} for target in targets
        ]
    }


@pytest.mark.parametrize("targets", [("0:", "1:2"), ("1:2", "0:")])
def test_the_inner_of_nested_ranges_wins(targets):
    images = [container["image"] for container in node_ranges.containers(properties(*targets), 4)]
    assert images == ["0:", "1:2", "1:2", "0:"]


def test_a_node_without_container_is_an_error():
    with pytest.raises(ValueError, match="no container for node 2 of 3"):
        node_ranges.containers(properties("0:1"), 3)


def test_node_overrides_by_node():
    overrides = {"nodePropertyOverrides": [{"targetNodes": "1:", "containerOverrides": {"a": 1}}]}
    for targets in (("0", "1:"), ("0", "1:2")):
        found = node_ranges.overrides(overrides, properties(*targets), 3)
        assert found == [{}, {"a": 1}, {"a": 1}]


def test_overrides_are_for_ranges_of_the_definition():
    overrides = {"nodePropertyOverrides": [{"targetNodes": "1:", "containerOverrides": {}}]}
    with pytest.raises(ValueError, match="Non matching targets - 1:"):
        node_ranges.overrides(overrides, properties("0:"), 3)
