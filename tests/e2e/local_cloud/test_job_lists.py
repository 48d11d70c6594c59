"""Which jobs list_jobs finds."""


def test_jobs_are_listed_by_status_and_by_filter_newest_first(cloud, gate):
    queue = cloud.create_queue()

    def listed(**fields):
        jobs = cloud.batch.list_jobs(jobQueue=queue, **fields)["jobSummaryList"]
        return [job["jobName"] for job in jobs]

    def found(name, *values):
        return listed(filters=[{"name": name, "values": list(values)}])

    running = cloud.shell(gate.script, queue=queue, jobName="beta-1")
    cloud.wait_for(running, "RUNNING")
    failed = cloud.shell("exit 2", queue=queue, jobName="alpha-1")
    cloud.finish(failed)
    array = cloud.shell("true", queue=queue, jobName="alpha-2", arrayProperties={"size": 2})
    cloud.finish(array)
    assert listed() == ["beta-1"]
    assert listed(jobStatus="FAILED") == ["alpha-1"]
    assert listed(jobStatus="SUCCEEDED") == ["alpha-2"], "without the array's children"
    (summary,) = cloud.batch.list_jobs(jobQueue=queue, jobStatus="FAILED")["jobSummaryList"]
    assert summary["container"] == {"exitCode": 2}
    assert summary["statusReason"] == "Essential container in task exited"
    assert found("JOB_NAME", "ALPHA-1") == ["alpha-1"]
    assert found("JOB_NAME", "alpha*") == ["alpha-2", "alpha-1"]
    first_created = cloud.describe(running)["createdAt"]
    every = ["alpha-2", "alpha-1", "beta-1"]
    assert found("AFTER_CREATED_AT", str(first_created - 1)) == every
