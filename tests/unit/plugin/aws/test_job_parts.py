"""Multi-node jobs, whose main node has the container and the log."""

from batchmark.aws.batch_jobs import describe_jobs
from batchmark.aws.job_description import failure_message, log_location
from batchmark.aws.job_parts import first_child, most_informative_child
from tests.stand_ins.batch import FakeBatch

NODES = {"numNodes": 3, "mainNode": 0, "nodeRangeProperties": []}


def added(status="RUNNING", **node):
    batch = FakeBatch()
    job = batch.add("any", status, nodeProperties=NODES)
    own = {"jobId": f"{job}#0", "nodeDetails": {"nodeIndex": 0, "isMainNode": True}}
    own["container"] = {"logStreamName": "main", "exitCode": 3}
    batch.jobs[f"{job}#0"] = batch.jobs[job] | own | node
    return batch, job


def test_it_is_described_with_its_main_node():
    batch, job = added(attempts=[{"startedAt": 1}], startedAt=1)
    (found,) = describe_jobs(batch, [job]).values()
    assert (found["jobId"], found["status"]) == (job, "RUNNING")
    assert log_location(found).stream == "main"
    assert found["startedAt"] == 1
    assert len(found["attempts"]) == 1
    assert first_child(found)["jobId"] == most_informative_child(found)["jobId"] == f"{job}#0"
    assert describe_jobs(batch, [f"{job}#0"]).keys() == {f"{job}#0"}, "asked for itself"
    del batch.jobs[f"{job}#0"]
    alone = describe_jobs(batch, [job])[job]  # as before it has nodes
    assert first_child(alone) is alone
    assert log_location(alone) is None


def test_attempts_that_only_the_job_tells_are_the_nodes_too():
    batch, job = added()
    batch.change(job, attempts=[{"startedAt": 1}], startedAt=1, stoppedAt=2)
    found = describe_jobs(batch, [job])[job]
    node = first_child(found)
    assert (node["attempts"], node["stoppedAt"]) == ([{"startedAt": 1}], 2)


def test_its_failure_is_told_by_both():
    batch, job = added("FAILED", statusReason="Essential container in task exited")
    batch.change(job, statusReason="Host EC2 (instance i-1) terminated.")
    text = failure_message(describe_jobs(batch, [job])[job], ["node 2 at 10.0.0.7 fell silent"])
    assert "status reason: Host EC2 (instance i-1) terminated." in text
    assert (
        "Its main node: exit code 3 (the command's own error); status reason: Essential container"
        in text
    )
    assert "node 2 at 10.0.0.7 fell silent" in text
