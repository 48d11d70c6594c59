"""What a job waits for."""

from types import SimpleNamespace

import pytest

from local_cloud.batch.jobs.dependencies import check, prerequisites

CHILDREN = [SimpleNamespace(job_id=id_) for id_ in "abc"]
OTHERS = {"array": SimpleNamespace(children=CHILDREN), "plain": SimpleNamespace(children=[])}


def test_a_sequential_child_waits_for_the_one_before_it_alone():
    sequential = [{"type": "SEQUENTIAL"}]
    assert prerequisites(sequential, 2, CHILDREN[:2], OTHERS.get) == CHILDREN[1:2]
    assert prerequisites(sequential, 0, [], OTHERS.get) == []


def test_a_child_waits_for_its_like_or_for_the_whole_job():
    n_to_n = {"jobId": "array", "type": "N_TO_N"}
    assert prerequisites([n_to_n], 1, [], OTHERS.get) == [CHILDREN[1]]
    both = [{"jobId": "array"}, {"jobId": "plain"}]
    assert prerequisites(both, 1, [], OTHERS.get) == list(OTHERS.values())


def test_sequential_with_a_job_is_a_plain_dependency():
    on_a_job = [{"jobId": "plain", "type": "SEQUENTIAL"}]
    for array_size in (None, 3):
        check(on_a_job, array_size, OTHERS.get)
    assert prerequisites(on_a_job, None, [], OTHERS.get) == [OTHERS["plain"]]
    assert prerequisites(on_a_job, 2, CHILDREN[:2], OTHERS.get) == [OTHERS["plain"]]


@pytest.mark.parametrize(
    ("dependency", "message"),
    [
        ({"type": "SEQUENTIAL"}, "SEQUENTIAL is for array jobs only"),
        ({"jobId": "array", "type": "N_TO_N"}, "N_TO_N is for array jobs only"),
        ({"jobId": "nothing", "type": "SEQUENTIAL"}, "nothing does not exist"),
    ],
)
def test_a_job_that_is_no_array_has_no_children_to_wait_for(dependency, message):
    with pytest.raises(ValueError, match=message):
        check([dependency], None, OTHERS.get)
