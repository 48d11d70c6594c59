"""vCPUs, memory and GPUs: which jobs run, wait or can never start."""


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
    parent = cloud.submit(definition, arrayProperties={"size": 100})
    assert cloud.finish(parent)["status"] == "SUCCEEDED"
