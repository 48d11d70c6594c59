"""dependsOn and array jobs."""

import itertools

import pytest

STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")


def test_a_job_waits_for_those_it_depends_on_and_for_whole_arrays(cloud, gate):
    script = f"[ $AWS_BATCH_JOB_ARRAY_INDEX = 0 ] || {{ {gate.script}; }}"
    array = cloud.shell(script, arrayProperties={"size": 2})
    second = cloud.shell("true")
    third = cloud.shell("true", dependsOn=[{"jobId": array}, {"jobId": second}])
    for each in (f"{array}:0", second):
        cloud.finish(each)
    assert cloud.describe(third)["status"] == "PENDING"
    gate.open()
    job = cloud.finish(third)
    assert job["status"] == "SUCCEEDED"
    assert job["startedAt"] >= cloud.describe(array)["stoppedAt"]
    assert job["dependsOn"] == [{"jobId": array}, {"jobId": second}]


def test_a_failure_fails_the_whole_chain(cloud, gate):
    first = cloud.shell(f"{gate.script}; exit 1")
    second = cloud.shell("true", dependsOn=[{"jobId": first}])
    third = cloud.shell("true", dependsOn=[{"jobId": second}])
    gate.open()
    for job_id in (second, third):
        job = cloud.finish(job_id)
        assert (job["status"], job["statusReason"]) == ("FAILED", "Dependent Job failed")
        assert job["attempts"] == []
    late = cloud.finish(cloud.shell("true", dependsOn=[{"jobId": first}]))
    assert late["statusReason"] == "Dependent Job failed"


def test_array_job_fails_with_a_child_after_all_have_ended(cloud, gate):
    script = f"[ $AWS_BATCH_JOB_ARRAY_INDEX = 1 ] && exit 4; {gate.script}"
    parent = cloud.shell(script, arrayProperties={"size": 2})
    cloud.finish(f"{parent}:1")
    job = cloud.describe(parent)
    assert job["status"] == "PENDING"
    assert job["arrayProperties"]["statusSummary"]["FAILED"] == 1
    gate.open()
    job = cloud.finish(parent)
    assert (job["status"], job["statusReason"]) == ("FAILED", "Array Child Job failed")
    ended = {"SUCCEEDED": 1, "FAILED": 1}
    assert job["arrayProperties"]["statusSummary"] == dict.fromkeys(STATUSES, 0) | ended


def test_sequential_children_run_one_after_the_other_and_none_after_a_failure(cloud):
    script = "[ $AWS_BATCH_JOB_ARRAY_INDEX -lt 2 ]"
    parent = cloud.shell(script, arrayProperties={"size": 5}, dependsOn=[{"type": "SEQUENTIAL"}])
    job = cloud.finish(parent)
    assert job["status"] == "FAILED"
    children = [cloud.describe(f"{parent}:{index}") for index in range(5)]
    for earlier, later in itertools.pairwise(children[:3]):
        assert earlier["stoppedAt"] <= later["startedAt"]
    assert [child["statusReason"] for child in children[3:]] == ["Dependent Job failed"] * 2
    assert job["arrayProperties"]["statusSummary"]["SUCCEEDED"] == 2


@pytest.mark.parametrize(("end", "left"), [("terminate_job", 0), ("cancel_job", 4)])
def test_an_array_job_ends_with_its_children_or_with_those_that_have_not_started(
    cloud, gate, end, left
):
    parent = cloud.shell(gate.script, arrayProperties={"size": 6})
    cloud.wait_for(f"{parent}:3", "RUNNING")
    getattr(cloud.batch, end)(jobId=parent, reason="enough")
    if left:
        gate.open()
    job = cloud.finish(parent)
    assert job["status"] == "FAILED"
    summary = job["arrayProperties"]["statusSummary"]
    assert (summary["SUCCEEDED"], summary["FAILED"]) == (left, 6 - left)
