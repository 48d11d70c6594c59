"""vCPUs, memory and GPUs: which jobs run, wait or can never start."""

from tests.waiting import wait_for


def test_gpu_jobs_get_different_gpus_and_the_third_waits(cloud, gate):
    script = f"echo $NVIDIA_VISIBLE_DEVICES [$CUDA_VISIBLE_DEVICES]; {gate.script}"
    definition = cloud.define(["sh", "-c", script], gpus=1)
    first, second, third = (cloud.submit(definition) for _ in range(3))
    cloud.wait_for(first, "RUNNING")
    cloud.wait_for(second, "RUNNING")
    waiting = cloud.describe(third)
    assert waiting["status"] == "RUNNABLE"
    assert "statusReason" not in waiting
    assert "startedAt" not in waiting

    # A job that needs no GPU passes the one that waits for it.
    assert cloud.finish(cloud.shell("true"))["status"] == "SUCCEEDED"
    assert cloud.describe(third)["status"] == "RUNNABLE"

    gate.open()
    ids = [cloud.output(job_id)[0].split()[0] for job_id in (first, second, third)]
    assert sorted(ids[:2]) == ["0", "1"]
    assert ids[2] in ("0", "1")


def test_a_big_job_is_not_starved_by_small_ones(cloud, gate):
    small = cloud.define(["sh", "-c", gate.script])
    running = [cloud.submit(small) for _ in range(3)]
    for job_id in running:
        cloud.wait_for(job_id, "RUNNING")
    big = cloud.submit(cloud.define(["true"], vcpus=4))
    late = cloud.submit(small)
    # One vCPU is free, but it is the big job's turn.
    assert cloud.describe(big)["status"] == "RUNNABLE"
    assert cloud.describe(late)["status"] == "RUNNABLE"

    gate.open()
    finished = [cloud.finish(job_id) for job_id in (big, late)]
    assert finished[0]["startedAt"] <= finished[1]["startedAt"]


def test_the_queue_of_higher_priority_goes_first(cloud, gate):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], vcpus=4))
    cloud.wait_for(blocker, "RUNNING")
    definition = cloud.define(["true"], vcpus=4)
    low = cloud.submit(definition)
    high = cloud.submit(definition, queue=cloud.create_queue(priority=10))
    gate.open()
    assert cloud.finish(high)["stoppedAt"] <= cloud.finish(low)["startedAt"]


def test_the_queues_time_limit_cancels_a_stuck_job(cloud):
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
    action = {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": 1, "action": "CANCEL"}
    queue = cloud.create_queue(jobStateTimeLimitActions=[action])
    job = cloud.finish(cloud.submit(cloud.define(["true"], gpus=3), queue=queue))
    assert job["status"] == "FAILED"
    assert reason in job["statusReason"]
    assert job["isCancelled"]
    assert job["stoppedAt"] - job["createdAt"] >= 1000


def test_a_hundred_jobs_at_once(cloud):
    definition = cloud.define(["true"], vcpus=0.25, memory=4)
    job_ids = [cloud.submit(definition) for _ in range(100)]

    def statuses():
        found = {job["status"] for job in cloud.batch.describe_jobs(jobs=job_ids)["jobs"]}
        return found if found <= {"SUCCEEDED", "FAILED"} else None

    assert wait_for(statuses, "end of all jobs", 60) == {"SUCCEEDED"}
