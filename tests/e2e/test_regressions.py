"""From a workload that got 10 % slower to one alert, through the real chain."""

import pytest

from batchmark.aws.result_bucket import REPORT_HTML
from batchmark.changes.alerts.store import AlertStore
from laptop.aws import AwsClients
from laptop.demo import DAG_ID
from laptop.session import Clock
from laptop.stack import Ports, Stack
from tests.e2e.naps import SECONDS, Naps
from tests.e2e.regression_runs import SLOWER, TARGETS, changes_of, put_earlier_runs, run
from tests.e2e.stacks import store_of
from tests.inbox import Inbox
from tests.user_client import UserClient


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
    clock, naps = Clock(), Naps(tmp_path / "naps")
    with Stack(tmp_path / "stack", Ports(), clock.say, vcpus=4) as stack:
        stack.start()
        aws = AwsClients(stack.aws)
        inbox = Inbox(aws, "thirty")
        told = {}
        with UserClient(stack.airflow) as airflow, naps.everywhere(aws):
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
