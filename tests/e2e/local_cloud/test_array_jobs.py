"""Array jobs."""


def test_array_job(cloud):
    definition = cloud.define(
        ["sh", "-c", "echo $AWS_BATCH_JOB_ARRAY_INDEX of $AWS_BATCH_JOB_ARRAY_SIZE"]
    )
    parent = cloud.submit(definition, arrayProperties={"size": 3})
    job = cloud.finish(parent)
    assert job["status"] == "SUCCEEDED"
    assert job["arrayProperties"]["size"] == 3
    assert job["arrayProperties"]["statusSummary"] == {
        "SUBMITTED": 0,
        "PENDING": 0,
        "RUNNABLE": 0,
        "STARTING": 0,
        "RUNNING": 0,
        "SUCCEEDED": 3,
        "FAILED": 0,
    }
    for index in range(3):
        child = cloud.describe(f"{parent}:{index}")
        assert child["arrayProperties"]["index"] == index
        assert cloud.lines(child) == [f"{index} of 3"]


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
    assert job["arrayProperties"]["statusSummary"]["SUCCEEDED"] == 1


def test_terminating_an_array_job_ends_its_children(cloud, gate):
    parent = cloud.shell(gate.script, arrayProperties={"size": 6})
    cloud.wait_for(f"{parent}:0", "RUNNING")
    cloud.batch.terminate_job(jobId=parent, reason="enough")
    job = cloud.finish(parent)
    assert (job["status"], job["statusReason"]) == ("FAILED", "enough")
    assert job["arrayProperties"]["statusSummary"]["FAILED"] == 6


def test_cancelling_an_array_job_ends_what_has_not_started(cloud, gate):
    parent = cloud.shell(gate.script, arrayProperties={"size": 6})
    cloud.wait_for(f"{parent}:3", "RUNNING")
    cloud.batch.cancel_job(jobId=parent, reason="enough")
    gate.open()
    summary = cloud.finish(parent)["arrayProperties"]["statusSummary"]
    assert (summary["SUCCEEDED"], summary["FAILED"]) == (4, 2)
