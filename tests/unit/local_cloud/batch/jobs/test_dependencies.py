"""What a job waits for."""

from types import SimpleNamespace

import pytest
from moto.batch.exceptions import ClientException

from local_cloud.batch.jobs.dependencies import check, prerequisites

CHILDREN = [SimpleNamespace(job_id=id_) for id_ in "abc"]
OTHERS = {"array": SimpleNamespace(), "plain": SimpleNamespace()}
SEQUENTIAL = [{"type": "SEQUENTIAL"}]
ON_A_JOB = [{"jobId": "plain", "type": "SEQUENTIAL"}]  # is a plain dependency


@pytest.mark.parametrize(
    ("dependencies", "siblings", "awaited"),
    [
        (SEQUENTIAL, CHILDREN[:2], CHILDREN[1:2]),
        (SEQUENTIAL, [], []),
        ([{"jobId": "array"}, {"jobId": "plain"}], [], list(OTHERS.values())),
        (ON_A_JOB, [], [OTHERS["plain"]]),
        (ON_A_JOB, CHILDREN[:2], [OTHERS["plain"]]),
    ],
)
def test_a_job_waits_for_all_it_names_or_for_the_sibling_before_it(dependencies, siblings, awaited):
    check(dependencies, 3, OTHERS.get)
    assert prerequisites(dependencies, siblings, OTHERS.get) == awaited


@pytest.mark.parametrize(
    ("dependencies", "message"),
    [
        (SEQUENTIAL, "SEQUENTIAL is valid only for array jobs"),
        ([{"jobId": "nothing", "type": "SEQUENTIAL"}], "nothing does not exist"),
        ([{"jobId": "nothing"}], "nothing does not exist"),
        ([{"jobId": "plain"}] * 21, "at most 20"),
        ([{"jobId": "array", "type": "N_TO_N"}], "does not support N_TO_N dependencies"),
    ],
)
def test_impossible_dependencies_are_refused(dependencies, message):
    check(ON_A_JOB, None, OTHERS.get)
    with pytest.raises((ValueError, ClientException), match=message):
        check(dependencies, None, OTHERS.get)
