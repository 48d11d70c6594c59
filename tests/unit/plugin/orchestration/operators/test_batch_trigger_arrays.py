"""A followed array job: its parent tells nothing, so its children do."""

from tests.stand_ins.batch import RECLAIMED
from tests.stand_ins.following import CREATED, NAME, ON_DEMAND, Following

ENDED = {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_000}


def changing(following, index, **fields):
    return lambda: following.batch.change_child("job-1", index, **fields)


def test_an_array_whose_children_run_is_not_stuck_though_its_parent_is_pending():
    following = Following(children=["RUNNING"] * 3, runnable_seconds=600, starting_seconds=60)
    spans = [ENDED | {"startedAt": ENDED["startedAt"] + 1000 * n} for n in range(3)]
    ends = [
        (1, changing(following, n, status="SUCCEEDED", attempts=[span], **span))
        for n, span in enumerate(spans)
    ]
    xcoms = following.succeeds((900, {}), *ends)
    assert xcoms["timing"]["started_at"] == "2026-11-21T00:58:51+00:00", "of the first child"
    assert xcoms["timing"]["phases"]["last_attempt_seconds"] == 10
    assert following.diagnosed == following.batch.terminated == []


def test_a_child_that_is_retried_waits_from_its_last_attempts_end():
    following = Following(children=["RUNNING", "RUNNING"], runnable_seconds=600)
    lost = {"status": "RUNNABLE", "attempts": [{"stoppedAt": (CREATED + 3000) * 1000}]}
    following.event((3500, changing(following, 1, **lost)), (99, {}), (2, {}), (2, {}), (2, {}))
    assert following.now == CREATED + 3605
    assert following.diagnosed == ["RUNNABLE"]


def test_an_array_waits_for_others_of_its_queue_but_not_for_itself():
    following = Following(children=["RUNNING", "RUNNABLE"], runnable_seconds=600)
    other = following.batch.add_array("another", ["RUNNING"] * 2)

    def other_ends():
        for index in range(2):
            following.batch.change_child(other, index, status="SUCCEEDED")

    failure = following.fails((601, {}), (590, other_ends), (11, {}), (2, {}), (2, {}))
    assert following.now == CREATED + 1206
    assert following.diagnosed == ["RUNNABLE"]
    assert [job_id for job_id, _ in following.batch.terminated] == ["job-1"]
    assert "It was RUNNABLE for more than 600 s" in failure


def test_a_failed_array_names_its_failed_children_and_shows_the_first_ones_log():
    following = Following(children=["RUNNING"] * 3)
    killed = {"exitCode": 137, "reason": "OutOfMemoryError", "logStreamName": "stream-1"}
    waited = {"exitCode": 1, "logStreamName": "stream-2"}
    failed = {"status": "FAILED", "statusReason": "Essential container in task exited"}
    first = failed | ENDED | {"attempts": [ENDED | {"container": killed}]}
    failure = following.fails(
        (1, changing(following, 0, status="SUCCEEDED")),
        (1, changing(following, 2, **failed, stoppedAt=ENDED["stoppedAt"] + 9, container=waited)),
        (1, changing(following, 1, **first, container=killed)),
    )
    lines = failure.splitlines()
    reason = "status reason: Essential container in task exited"
    out_of_memory = (
        f"exit code 137 (killed, usually out of memory); {reason}; container: OutOfMemoryError"
    )
    assert lines[0] == f"Batch job job-1 ({NAME}) is FAILED: {out_of_memory}"
    assert lines[1:4] == [
        "2 of 3 children failed:",
        f"1: {out_of_memory}",
        f"2: exit code 1 (the command's own error); {reason}",
    ]
    assert "lines of log stream stream-1 in log group /aws/batch/job:" in failure
    assert following.xcoms["_link_JobLogLink"].endswith("/local-cloud/jobs/job-1%3A1/log")


def test_an_array_that_lost_its_host_is_followed_by_an_on_demand_one():
    following = Following(children=["RUNNING"] * 2, on_demand=ON_DEMAND)
    lost = {"status": "FAILED", "statusReason": RECLAIMED, "stoppedAt": 9}
    alone = {"status": "FAILED", "statusReason": "Essential container in task exited"}
    xcoms = following.succeeds(
        (1, changing(following, 0, **alone, stoppedAt=5)),
        (1, changing(following, 1, **lost)),
        (2, {"status": "SUCCEEDED"}),
    )
    assert following.batch.submissions == [ON_DEMAND]
    assert xcoms["job_ids"] == ["job-1", "job-2"]
