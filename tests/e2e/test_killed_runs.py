"""A run that is killed at every task boundary leaves what one leaves that nobody touched."""

import time
from collections import Counter

import pytest

from batchmark.analysis.samples import parameters_json
from batchmark.aws.batch_jobs import describe_jobs, list_jobs
from batchmark.aws.result_bucket import CHANGES
from batchmark.changes.alerts.store import AlertStore
from batchmark.core.names import RUN_TAG, generation_of, slug
from batchmark.history.rebuild import rebuild
from batchmark.history.store import HistoryStore
from batchmark.orchestration.xcom import RERUN_TASKS
from batchmark.runs.spending import run_spending
from batchmark_job.result.document import parse_document
from laptop.demo import DAG_ID
from tests.e2e.naps import SECONDS, Naps
from tests.e2e.regression_runs import CONF, SLOWER, TARGETS, changes_of, put_earlier_runs, run
from tests.e2e.stacks import store_of, wait_for_end
from tests.inbox import Inbox

# Eight to twelve minutes; the unit tests' test_regressions.py repeats the tasks alone.
pytestmark = [pytest.mark.thirty_runs, pytest.mark.timeout(1500)]

KILLING_SECONDS = 900
BEFORE_COLLECTING = {"check_environment", "plan_jobs", "run_benchmark"}
LAST = {"publish_alerts", "announce_regressions"}  # no boundary is behind them
# What tells rows apart, without what a run measures and how it is named.
ROW = ("target", "repeat", "purpose", "parameters", "dtype", "status", "actual_device")


def name_of(task):
    return task["task_id"], task["map_index"]


def kill(airflow, run_id):
    """End a run as a user does: what runs fails, what waits is skipped."""
    airflow.cancel(DAG_ID, run_id)
    assert airflow.state(DAG_ID, run_id) == "failed"


def clear(airflow, run_id, tasks):
    """Let tasks of a run that has ended run again."""
    ids = [task["task_id"] if task["map_index"] < 0 else name_of(task) for task in tasks]
    airflow.clear_tasks(DAG_ID, run_id, ids)


def kill_at_every_boundary(airflow, run_id):
    """Kill a run each time that more of its tasks have succeeded, and let it go on.

    Returns which these were, kill by kill.
    """
    kills, known = [], set()
    deadline = time.monotonic() + KILLING_SECONDS
    while True:
        tasks = airflow.task_instances(DAG_ID, run_id)
        states = Counter(task["state"] for task in tasks)
        assert not states.keys() & {"failed", "upstream_failed", "skipped"}, (kills, states)
        assert time.monotonic() < deadline, (kills, states)
        succeeded = {name_of(task) for task in tasks if task["state"] == "success"}
        if tasks and len(succeeded) == len(tasks):
            return kills
        if new := succeeded - known:
            kill(airflow, run_id)
            tasks = airflow.task_instances(DAG_ID, run_id)
            left = [task for task in tasks if task["state"] != "success"]
            assert left
            ended = dict(Counter(task["state"] for task in left))
            print(f"killed after {sorted(new)}: {ended}", flush=True)
            clear(airflow, run_id, left)
            kills.append(new)
            known |= new
        time.sleep(0.2)


def jobs_of(aws, run_id):
    """A run's jobs in Batch, by what they measure; of each the newest first."""
    config, batch = aws.config(), aws.client("batch")
    queues = [
        queue for one in config.targets.values() for queue in (one.job_queue, one.on_demand_queue)
    ]
    ids = [job["jobId"] for job in list_jobs(batch, queues, config.name)]
    found = {}
    for job in describe_jobs(batch, ids).values():
        if job["tags"].get(RUN_TAG) == slug(run_id):
            label = job["jobName"].rsplit("-", 2)[0]  # before the digest and the generation
            found.setdefault(label, []).append(job)
    for jobs in found.values():
        jobs.sort(key=lambda job: (generation_of(job["jobName"]), job["createdAt"]), reverse=True)
    return found


def rows_of(aws, run_id, *columns):
    history = HistoryStore(aws.client("s3"), aws.config().bucket)
    rows = history.read(columns, run_ids=[run_id]).to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in rows)


def alerts_of(aws, run_id):
    alerts = AlertStore(store_of(aws, run_id)).alerts()
    return [one for one in alerts if one.transitions[0].run_id == run_id]


def left_by(aws, run_id):
    """What a run left that another of the same plan leaves, too."""
    found = changes_of(aws, run_id)
    return {
        "rows": rows_of(aws, run_id, *ROW),
        "jobs": sorted(jobs_of(aws, run_id)),
        "verdicts": sorted(
            (one.series.target, one.outcome, len(one.reruns)) for one in found.confirmations
        ),
        "alerts": [
            (
                one.state,
                one.change.kind,
                sorted(one.change.targets),
                [cause.name for cause in one.change.causes],
            )
            for one in alerts_of(aws, run_id)
        ],
    }


def check_history(aws, run_id):
    """Hold a run's rows against the documents of the jobs that count, and against a rebuild."""
    config, store = aws.config(), store_of(aws, run_id)
    counting = {jobs[0]["jobId"] for jobs in jobs_of(aws, run_id).values()}
    documents = {key: parse_document(store.read(key)) for key in store.keys(f"raw/{slug(run_id)}/")}
    assert rows_of(aws, run_id, "raw_key", "workload", "parameters", "dtype") == sorted(
        (key, row.workload, parameters_json(row.parameters), row.dtype)
        for key, document in documents.items()
        if document.job_id in counting
        for row in document.measurements
    )
    rebuilt = rebuild(aws.client("s3"), config.bucket, config.region, dry_run=True)
    assert not [key for key in (*rebuilt.written, *rebuilt.removed) if slug(run_id) in key]


def check_jobs(aws, run_id):
    """Each job that counts did well, none goes on, and all are booked at what they cost."""
    jobs = jobs_of(aws, run_id)
    assert {one[0]["status"] for one in jobs.values()} == {"SUCCEEDED"}
    everything = [job for one in jobs.values() for job in one]
    assert {job["status"] for job in everything} <= {"SUCCEEDED", "FAILED"}
    store = store_of(aws, run_id)
    plan = store.plan()
    spending = run_spending(store, plan.spending_key)
    assert spending.finished
    assert spending.reserved_usd == 0
    assert set(spending.job_usd) == {job["jobId"] for job in everything}


def kept(aws, run_id):
    """The objects that no task may write differently when it runs again."""
    store = store_of(aws, run_id)
    keys = [key for key in store.keys("history/") if slug(run_id) in key]
    return {key: store.read(key) for key in (*keys, *store.keys("alerts/"), store.prefix + CHANGES)}


def test_a_run_killed_at_every_boundary_leaves_the_same_history_and_the_same_alert(
    airflow, aws, tmp_path
):
    naps, inbox = Naps(tmp_path / "naps", "calm_nap", "killed_nap"), Inbox(aws, "killed")
    with naps.everywhere(aws):
        put_earlier_runs(aws, run(airflow))
        naps.last(SLOWER * SECONDS, "calm_nap")
        calm = run(airflow)
        (told,) = inbox.alerts()
        assert "calm_nap" in told["Message"]

        naps.last(SLOWER * SECONDS, "killed_nap")
        # Off EC2 an ended job is booked at the most that it could cost, and here are many.
        run_id = airflow.trigger(DAG_ID, CONF | {"max_cost_usd": None})
        kills = kill_at_every_boundary(airflow, run_id)
        assert wait_for_end(airflow, DAG_ID, run_id) == "success"
        tasks = airflow.task_instances(DAG_ID, run_id)
        never = {name_of(task) for task in tasks}.difference(*kills)
        assert {task_id for task_id, _ in never} <= LAST

        expected = left_by(aws, calm)
        assert len(expected["jobs"]) == len(TARGETS) * (1 + 3)
        assert expected["verdicts"] == [(target, "confirmed", 3) for target in TARGETS]
        assert left_by(aws, run_id) == expected
        check_history(aws, run_id)
        check_jobs(aws, run_id)
        (alert,) = alerts_of(aws, run_id)
        assert alert.state == "open"
        (message,) = inbox.alerts()
        assert alert.id in message["Message"]
        events = [one["name"] for one in airflow.asset_events(DAG_ID, run_id)]
        assert events.count("batchmark_regressions") == 1

        # Once more what had succeeded, first without the fresh jobs.
        before = kept(aws, run_id)
        later = [task for task in tasks if task["task_id"] not in BEFORE_COLLECTING]
        deciding = [task for task in later if task["task_id"] not in RERUN_TASKS]
        clear(airflow, run_id, deciding)
        assert wait_for_end(airflow, DAG_ID, run_id) == "success"
        assert kept(aws, run_id) == before
        clear(airflow, run_id, later)
        assert wait_for_end(airflow, DAG_ID, run_id) == "success"
    assert left_by(aws, run_id) == expected
    check_history(aws, run_id)
    check_jobs(aws, run_id)
    assert alerts_of(aws, run_id) == [alert]
    assert inbox.alerts() == []
