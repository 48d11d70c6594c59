"""What a job waits for."""

from types import SimpleNamespace

import pytest
from moto.batch.exceptions import ClientException

from local_cloud.batch.jobs.dependencies import check, prerequisites

CHILDREN = [SimpleNamespace(job_id=id_) for id_ in "abc"]
OTHERS = {"array": SimpleNamespace(), "plain": SimpleNamespace()}


def test_a_sequential_child_waits_for_the_one_before_it_alone():
    sequential = [{"type": "SEQUENTIAL"}]
    assert prerequisites(sequential, CHILDREN[:2], OTHERS.get) == CHILDREN[1:2]
    assert prerequisites(sequential, [], OTHERS.get) == []


def test_a_job_waits_for_all_it_names():
    both = [{"jobId": "array"}, {"jobId": "plain"}]
    assert prerequisites(both, [], OTHERS.get) == list(OTHERS.values())


def test_n_to_n_is_not_there():
    with pytest.raises(
        ClientException, match="The local cloud does not support N_TO_N dependencies"
    ):
        check([{"jobId": "array", "type": "N_TO_N"}], 3, OTHERS.get)


def test_sequential_with_a_job_is_a_plain_dependency():
    on_a_job = [{"jobId": "plain", "type": "SEQUENTIAL"}]
    for array_size in (None, 3):
        check(on_a_job, array_size, OTHERS.get)
    for siblings in ([], CHILDREN[:2]):
        assert prerequisites(on_a_job, siblings, OTHERS.get) == [OTHERS["plain"]]


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        ([{"type": "SEQUENTIAL"}], "SEQUENTIAL is valid only for array jobs"),
        ([{"jobId": "nothing", "type": "SEQUENTIAL"}], "nothing does not exist"),
        ([{"jobId": "nothing"}], "nothing does not exist"),
        ([{"jobId": "plain"}] * 21, "at most 20"),
    ],
)
def test_impossible_dependencies_are_refused(dependencies, message):
    with pytest.raises(ValueError, match=message):
        check(dependencies, None, OTHERS.get)
