"""What Batch's descriptions of queues and containers say."""

import pytest

from batchmark.aws.batch_targets import environment_names, requirements_of

NEW = {"resourceRequirements": [{"type": "VCPU", "value": "2"}, {"type": "GPU", "value": "1"}]}


@pytest.mark.parametrize(
    ("container", "asked"),
    [
        (NEW, {"VCPU": 2.0, "GPU": 1.0}),
        ({"vcpus": 4, "memory": 512}, {"VCPU": 4.0, "MEMORY": 512.0}),
        (NEW | {"vcpus": 4, "memory": 512}, {"VCPU": 2.0, "MEMORY": 512.0, "GPU": 1.0}),
        ({"vcpus": 0}, {}),
    ],
)
def test_a_container_asks_in_fields_of_old_where_it_does_not_otherwise(container, asked):
    assert requirements_of(container) == asked


def test_a_queue_tries_its_environments_in_the_order_of_their_numbers():
    order = [{"order": n, "computeEnvironment": f"number {n}"} for n in (10, 9)]
    assert environment_names({"computeEnvironmentOrder": order}) == ("number 9", "number 10")
    assert environment_names({}) == ()
