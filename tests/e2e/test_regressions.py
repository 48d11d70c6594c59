"""From a workload that got 10 % slower to one alert, through the real chain."""

from __future__ import annotations

from datetime import timedelta

import pytest

from batchmark.alerts.store import AlertStore
from batchmark.change_records import RunChanges
from batchmark.history.store import HistoryStore, run_prices
from batchmark.run import CollectedRun
from batchmark.store import CHANGES, COLLECTED, REPORT_HTML, RunStore
from laptop.aws import AwsClients
from laptop.demo import DAG_ID
from laptop.session import Clock
from laptop.stack import Ports, Stack
from tests.e2e.naps import SECONDS, Inbox, Naps
from tests.e2e.stacks import run_dag

pytestmark = pytest.mark.timeout(900)

SLOWER = 1.1
EARLIER_RUNS = 12
TARGETS = ("c5.2xlarge", "g4dn.xlarge")


def run(airflow) -> str:
    run_id, state = run_dag(airflow, DAG_ID, {"suite": "own"})
    assert state == "success"
    return run_id


def store_of(aws, run_id) -> RunStore:
    return RunStore(aws.client("s3"), aws.config().bucket, run_id)


def changes_of(aws, run_id) -> RunChanges:
    store = store_of(aws, run_id)
    return RunChanges.model_validate_json(store.read(store.prefix + CHANGES))


def put_earlier_runs(aws, run_id) -> None:
    """Let the history hold a measured run as often as weeks of schedule would have left it."""
    config, store = aws.config(), store_of(aws, run_id)
    measured = CollectedRun.model_validate_json(store.read(store.prefix + COLLECTED))
    prices = run_prices(store, config.region, measured)
    for ago in range(1, EARLIER_RUNS + 1):
        jobs = []
        for job in measured.jobs:
            moved = {
                name: getattr(job.document, name) - timedelta(weeks=ago)
                for name in ("started_at", "finished_at")
            }
            # Runs of weeks differ by more than the calls of one job.
            factor = 1 + 0.004 * ((ago * 7) % 5 - 2)
            rows = tuple(
                row.model_copy(
                    update={"samples_seconds": tuple(factor * s for s in row.samples_seconds)}
                )
                for row in job.document.measurements
            )
            document = job.document.model_copy(update=moved | {"measurements": rows})
            jobs.append(job.model_copy(update={"document": document}))
        earlier = measured.model_copy(
            update={"run_id": f"{run_id}-{ago}-weeks-before", "jobs": tuple(jobs)}
        )
        HistoryStore(aws.client("s3"), config.bucket).append(earlier, prices)


@pytest.mark.thirty_runs  # four minutes; test_regression_tasks.py has the same decisions
def test_a_slower_workload_is_confirmed_and_told_once_in_the_same_run(
    stack, airflow, aws, tmp_path
):
    naps, inbox = Naps(tmp_path / "naps"), Inbox(aws, "slower")
    with naps.everywhere(aws):
        put_earlier_runs(aws, run(airflow))
        naps.last(SLOWER * SECONDS)
        run_id = run(airflow)
    found = changes_of(aws, run_id)
    assert {one.outcome for one in found.confirmations} == {"confirmed"}
    assert all(len(one.reruns) == 3 for one in found.confirmations)
    (message,) = inbox.alerts()
    assert "nap" in message["Message"]
    assert "own code" in message["Message"]  # what changed
    (alert,) = [
        one
        for one in AlertStore(store_of(aws, run_id)).alerts()
        if one.transitions[0].run_id == run_id
    ]
    assert alert.state == "open"
    assert alert.change.targets == tuple(sorted(alert.change.targets))
    assert set(alert.change.targets) == set(TARGETS)
    assert alert.id in message["Message"]
    store = store_of(aws, run_id)
    assert alert.id in store.read(store.prefix + REPORT_HTML).decode()
    (event,) = [
        one
        for one in airflow.asset_events(DAG_ID, run_id)
        if one["name"] == "batchmark_regressions"
    ]
    assert event["extra"]["run_id"] == run_id


@pytest.mark.thirty_runs
@pytest.mark.timeout(5400)
def test_thirty_runs_with_a_regression_and_its_end_give_one_alert(tmp_path):
    from laptop.airflow import AirflowClient

    clock, naps = Clock(), Naps(tmp_path / "naps")
    with Stack(tmp_path / "stack", Ports(), clock.say, vcpus=4) as stack:
        stack.start()
        aws = AwsClients(stack)
        inbox = Inbox(aws, "thirty")
        told = {}
        with AirflowClient(stack.airflow) as airflow, naps.everywhere(aws):
            for number in range(1, 31):
                naps.last(SLOWER * SECONDS if 20 <= number < 26 else SECONDS)
                run_id = run(airflow)
                if messages := inbox.alerts():
                    told[number] = messages
                clock.say(f"run {number} of 30: {len(messages)} message(s)")
        (alert,) = AlertStore(store_of(aws, run_id)).alerts()
        aws.close()
    assert set(alert.change.targets) == set(TARGETS)
    assert alert.state == "recovered"
    first, back = told  # the numbers of the runs that told something
    assert first == 20
    assert 26 < back <= 30
    assert [len(messages) for messages in told.values()] == [1, 1]
    assert "own code" in told[20][0]["Message"]
    assert "recovered" in told[back][0]["Message"]
