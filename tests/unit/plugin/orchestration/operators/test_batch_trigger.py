"""The trigger, from a job's submission to its task's end."""

import asyncio
from types import SimpleNamespace

from airflow._shared.module_loading import import_string

from batchmark.orchestration.operators.batch_trigger import BenchmarkJobTrigger
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.following import ON_DEMAND, RUNNING, SUCCEEDED, Following

OLD_PATH = "batchmark.orchestration.batch_trigger.BenchmarkJobTrigger"


def test_success_ends_the_task_with_ids_times_and_a_link():
    following = Following()
    attempt = {"startedAt": 1_795_222_731_000, "stoppedAt": 1_795_222_741_500}
    xcoms = following.succeeds(
        (1, {"status": "RUNNABLE"}),
        (3, {"status": "STARTING"}),
        (20, RUNNING),
        (30, SUCCEEDED | attempt | {"attempts": [attempt | {"container": {"exitCode": 0}}]}),
    )
    assert xcoms["return_value"] == "job-1"
    assert xcoms["_link_JobLogLink"] == "http://127.0.0.1:5000/local-cloud/jobs/job-1/log"
    timing = xcoms["timing"]
    assert timing["created_at"] == "2026-11-21T00:58:21+00:00"
    assert timing["first_seen"]["RUNNABLE"] == "2026-11-21T00:58:22+00:00"
    assert timing["first_seen"]["STARTING"] == "2026-11-21T00:58:25+00:00"
    assert timing["phases"] == {
        "until_first_start_seconds": 30.0,
        "last_attempt_seconds": 10.5,
        "earlier_attempts_seconds": 0,
    }
    (told,) = timing["attempts"]
    assert (told["exit_code"], told["stopped_at"]) == (0, "2026-11-21T00:59:01.500000+00:00")


def test_xcoms_are_pushed_as_a_worker_pushes_them_and_a_failure_does_not_change_the_outcome(
    monkeypatch,
):
    """An event's XComs would be stored as JSON within JSON."""
    pushed = []

    async def aset(key, value, **of):
        pushed.append((key, value, of))

    monkeypatch.setattr("batchmark.orchestration.operators.ending_trigger.XCom.aset", aset)
    trigger = BenchmarkJobTrigger(job_id="job-1", aws_conn_id=None)
    asyncio.run(trigger.push_xcoms({"timing": {}}))
    assert pushed == [], "no triggerer runs it"
    of = {"dag_id": "dag", "task_id": "task", "run_id": "run", "map_index": 3}
    trigger._task_instance = SimpleNamespace(**of)
    asyncio.run(trigger.push_xcoms({"timing": {"job_id": "job-1"}}))
    assert pushed == [("timing", {"job_id": "job-1"}, of)]
    aset = failing(RuntimeError("no API server"))
    monkeypatch.setattr("batchmark.orchestration.operators.ending_trigger.XCom.aset", aset)
    asyncio.run(trigger.push_xcoms({"timing": {}}))


def test_a_trigger_survives_its_serialization_as_does_one_that_was_deferred_before_it_moved():
    trigger = Following(document={"any": "field"}, on_demand=ON_DEMAND, deadline=5.0).trigger
    path, arguments = trigger.serialize()
    assert path == "batchmark.orchestration.operators.batch_trigger.BenchmarkJobTrigger"
    assert BenchmarkJobTrigger(**arguments).serialize() == (path, arguments)
    # The triggerer makes a trigger of the class path and the arguments that the database holds.
    _, arguments = Following(on_demand=ON_DEMAND).trigger.serialize()
    assert import_string(OLD_PATH)(**arguments).order.on_demand == ON_DEMAND
    following = Following(trigger=import_string(OLD_PATH))
    assert following.succeeds((1, RUNNING), (30, SUCCEEDED))["return_value"] == "job-1"


def test_killing_the_task_ends_its_job():
    following = Following()
    asyncio.run(following.trigger.on_kill())
    assert following.batch.terminated == [("job-1", "The Airflow task was ended by a user")]
