"""The instance that stands for an environment's."""

import pytest

from local_cloud.batch.ecs.instances import instance_type, new_arn
from local_cloud.batch.jobs.resources import Requirements

SMALL = Requirements(2.0, 1024)


@pytest.mark.parametrize(
    ("named", "needed", "found"),
    [
        (["c5.2xlarge"], SMALL, "c5.2xlarge"),
        (["c5"], SMALL, "c5.large"),
        (["c5"], Requirements(6.0, 1024), "c5.2xlarge"),
        (["c5.large", "g4dn.xlarge"], Requirements(2.0, 1024, gpus=1), "g4dn.xlarge"),
        (["optimal"], SMALL, "m4.large"),
        (["c5.large"], Requirements(64.0, 1024), "c5.large"),
        (["p2"], SMALL, "p2"),
        ([], SMALL, None),
    ],
)
def test_the_smallest_type_that_a_job_fits_on(named, needed, found):
    assert instance_type(named, needed) == found


def test_a_cluster_has_always_the_same_instance():
    first, second = (f"arn:aws:ecs:us-east-1:1:cluster/{name}" for name in "ab")
    assert new_arn(first) == new_arn(first)
    assert new_arn(first).startswith("arn:aws:ecs:us-east-1:1:container-instance/a/")
    assert new_arn(first) != new_arn(second)
