"""Which own jobs the DAG own_job_schedule starts."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from batchmark.core.run import RunPlan
from batchmark.orchestration.tasks import own_job_schedule
from tests.builders.existing_jobs import own_jobs
from tests.builders.runs import PRICES
from tests.builders.watched_jobs import plan, planned
from tests.stand_ins.planning import PlanningAccount, planning_context, two_targets

THURSDAY = datetime(2026, 11, 19, 12, tzinfo=UTC)
RUN_ID = "scheduled__2026-11-19T12:00:00+00:00"
NOON = "schedule__thumbnails__2026-11-19T12:00:00+00:00"
AT_NOON = [{"trigger_run_id": NOON, "conf": {"job": "thumbnails"}}]


@pytest.fixture
def account(monkeypatch):
    return PlanningAccount(monkeypatch, two_targets(), PRICES, own_job_schedule)


@pytest.fixture
def due(account, monkeypatch):
    """What is found at noon, given the schedule, the last look, and runs that are live."""

    def find(schedule, since=None, live=()):
        jobs = own_jobs(schedule=schedule)
        monkeypatch.setattr(own_job_schedule, "load_own_jobs", lambda: jobs)

        def count(*, dag_id, run_ids, states):
            assert (dag_id, states) == ("own_job_benchmark", ["queued", "running"])
            assert len(run_ids) <= own_job_schedule.EARLIER_RUNS
            return len(set(run_ids) & set(live))

        context = planning_context(RUN_ID, {}, dag_id="own_job_schedule", get_dr_count=count)
        context["dag_run"] = SimpleNamespace(run_after=THURSDAY)
        context["prev_data_interval_end_success"] = since
        return own_job_schedule.find_due(context)

    return find


def test_a_job_that_is_due_starts_by_a_run_that_says_so_unless_its_last_one_waits(due, capsys):
    assert due("0 12 * * *", since=THURSDAY.replace(hour=11, minute=45)) == AT_NOON
    before = "schedule__thumbnails__2026-11-17T12:00:00+00:00"
    assert due("0 12 * * *", live=[before]) == []
    assert "thumbnails was due at 12:00 UTC but is still running" in capsys.readouterr().out
    assert due("0 12 * * *", live=["schedule__other__2026-11-17T12:00:00+00:00"]) == AT_NOON


@pytest.mark.parametrize(
    ("schedule", "since"),
    [
        (None, (19, 11)),
        ("15 12 * * *", (19, 11, 45)),  # soon
        ("0 12 * * *", (19, 12)),  # started by the look before
        ("@weekly", (19, 11, 45)),
        ("45 11 * * *", None),  # before the first look ever
    ],
)
def test_none_starts_before_its_time_or_twice(due, schedule, since):
    assert due(schedule, since and datetime(2026, 11, *since, tzinfo=UTC)) == []


@pytest.mark.parametrize(
    ("schedule", "at"),
    [
        ("* * * * *", "2026-11-19T12:00:00"),
        ("@daily", "2026-11-19T00:00:00"),
        ("0 3 * * mon", "2026-11-16T03:00:00"),
        ("@quarterly", "2026-10-01T00:00:00"),
    ],
)
def test_what_was_missed_in_months_runs_once(due, schedule, at):
    (found,) = due(schedule, since=datetime(2026, 9, 1, tzinfo=UTC))
    assert found["trigger_run_id"] == f"schedule__thumbnails__{at}+00:00"


@pytest.mark.parametrize(
    ("job", "finished", "live", "started"),
    [
        ("thumbnails", False, True, []),
        ("thumbnails", False, False, AT_NOON),  # ended by hand
        ("thumbnails", True, True, AT_NOON),  # collected: it measures no more
        ("other", False, True, AT_NOON),
    ],
)
def test_no_job_starts_beside_one_by_hand(due, account, job, finished, live, started):
    account.book("manual", finished=finished)
    planned_run = RunPlan(jobs=[planned(plan(name=job))])
    account.store("manual").write("plan.json", planned_run.model_dump_json())
    assert due("0 12 * * *", live=["manual"] if live else []) == started


@pytest.mark.parametrize("schedule", ["every monday", "@once", "0 0 31 2 *"])
def test_a_schedule_that_airflow_does_not_take_is_named_with_what_to_give(due, schedule):
    with pytest.raises(AirflowFailException) as refused:
        due(schedule)
    text = str(refused.value)
    assert text.startswith(f"the schedule of own job thumbnails is {schedule!r}, which Airflow")
    assert "set it to @daily, @weekly or a cron expression such as '0 3 * * 1'" in text
