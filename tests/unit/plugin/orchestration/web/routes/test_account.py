"""The alerts, which an editor may change, and what all of it costs."""

import re
from html import unescape
from operator import methodcaller
from types import SimpleNamespace

import pytest

from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.records import Cause
from batchmark.core.kinds import OWN_JOB_DAG
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.orchestration.web import access
from batchmark.orchestration.web.airflow_runs import AirflowRun, Schedule
from batchmark.orchestration.web.routes import account
from tests.builders.alerts import change, merged, moved, point, series
from tests.builders.history import NOON, two_targets
from tests.builders.libraries import NOW
from tests.builders.spending import priced, worst_case

EVIL = "<script>alert(1)</script>\"'&"


def test_each_scheduled_dag_has_a_forecast_from_its_own_runs(pages, shelf):
    ids = [f"run__{number}" for number in range(2)]
    for run_id, usd in zip(ids, (2.0, 5.0), strict=True):
        shelf.booked(run_id, usd)
    pages.runs = [AirflowRun("own_job_benchmark", ids[0], NOW, "success")]
    worst = worst_case(targets=priced({"a": 1, "b": 2.6}))
    shelf.planned(ids[1], dag_id=access.READ_DAG, worst_case=worst)
    text = unescape(pages.text("/costs"))
    for dag_id, usd in (("own_job_benchmark", "$8.00"), (access.READ_DAG, "$20.00")):
        assert f"4 scheduled runs of {dag_id} next month, about {usd}: the latest 1 run" in text
    bill = "With boot and idling of one instance of each target and run: $20.48 to $23.60."
    assert f"cost $5.00. {bill}" in text
    shelf.booked("run__2", 2.0)
    pages.runs.append(AirflowRun("own_job_benchmark", "run__2", NOW, "success"))
    assert "the latest 2 runs cost $2.00 each." in unescape(pages.text("/costs"))
    pages.schedule = Schedule(None, paused=True)
    assert "own_job_benchmark" not in pages.text("/costs")


def test_each_own_jobs_schedule_has_a_forecast_from_its_own_runs(pages, shelf, monkeypatch):
    schedules = {"a": "@weekly", "b": "0 3 1 * *", "c": None}
    jobs = {name: SimpleNamespace(schedule=schedule) for name, schedule in schedules.items()}
    monkeypatch.setattr(account, "load_own_jobs", lambda: SimpleNamespace(jobs=jobs))
    planned = two_targets().jobs[0].planned
    for run_id, name, usd in (("run__0", "a", 2.0), ("run__1", "c", 5.0)):
        shelf.booked(run_id, usd)
        own = OwnJobPlan(name=name, job_definition="theirs")
        job = planned.model_copy(update={"own_job": own})
        worst = worst_case(targets=priced({"a": 3.6}))
        shelf.planned(run_id, dag_id=OWN_JOB_DAG, jobs=(job,), worst_case=worst)
    text = unescape(pages.text("/costs"))
    assert re.search(r"[45] scheduled runs of own job a next month, about \$(8|10)\.00:", text)
    assert re.search(r"and run: \$(8\.48|10\.60) to \$(11\.60|14\.50)\.", text)
    assert "1 scheduled run of own job b next month; the cost per run is not known yet" in text
    assert "own job c" not in text
    pages.schedule = Schedule(None, paused=True)
    assert "own job a is paused: its schedule will cost nothing." in pages.text("/costs")


def token_of(text):
    return re.search(r'name="token" value="([^"]+)"', text)[1]


def test_an_editor_changes_an_alert_and_a_viewer_sees_no_form(pages, shelf):
    alert = shelf.alert()
    form = {"token": token_of(pages.text("/alerts")), "state": "acknowledged", "note": EVIL}
    answer = pages.client.post(f"/alerts/{alert.id}", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/alerts#{alert.id}")
    (changed,) = AlertStore(shelf.store("")).alerts()
    assert (changed.state, changed.transitions[-1].by) == ("acknowledged", "editor")
    text = pages.text("/alerts")
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    with pages.seen_by("viewer"):
        text = pages.text("/alerts")
    assert "<form" not in text
    assert "needs permission to trigger the DAG" in text


def test_an_alert_leads_to_its_comparison_and_the_list_of_runs_to_it(pages, shelf):
    assert "No alert is open." in pages.text("/runs")
    point = shelf.alert().change.points[0]
    target = point.series.target
    query = f"a={point.first_run_id}&a_target={target}&b={point.last_run_id}&b_target={target}"
    alerts = unescape(pages.text("/alerts"))
    assert (
        f'"/compare?{query}">{target}, first run since against last run before</a>: two runs alone,'
        " not levels</dd>" in alerts
    )
    assert '<a href="/alerts">1 alert open</a>.' in pages.text("/runs")


def test_a_recovered_alert_says_what_changed_then(pages, shelf):
    alert = shelf.alert()
    assert "recovered with" not in pages.text("/alerts")
    causes = (Cause(name="AMI", before="ami-2", after="ami-3"),)
    (recovery,) = merged([change(point(26, 0.012, 0.0101), causes=causes)], [alert]).recoveries
    alerts = AlertStore(shelf.store(""))
    alerts.change_alert(alert.id, methodcaller("recover", recovery))
    assert "<dt>recovered with</dt>\n<dd>AMI ami-2 → ami-3</dd>" in pages.text("/alerts")


@pytest.mark.parametrize(
    ("usd", "told"),
    [
        (
            10.0,
            "; with them averaged in, the estimate for a month is below the $12.40 "
            "that was told first; ",
        ),
        (13.0, "; "),
    ],
)
def test_an_alert_that_more_rows_joined_says_whose_figures_it_has(pages, shelf, usd, told):
    alert = shelf.alert()
    text = pages.text("/alerts")
    assert "<dt>updated by</dt>" not in text
    assert f", as of run {alert.transitions[0].run_id}</dd>" in text
    more = moved(21, 0.010, 0.012, [*alert.series, series(dtype="int8")])
    (joined,) = merged([more.model_copy(update={"usd_per_month": usd})], [alert]).joined
    AlertStore(shelf.store("")).change_alert(alert.id, methodcaller("join", joined))
    text = pages.text("/alerts")
    added = f"run {joined.run_id}, which added rows that had moved too{told}the alert"
    assert f"<dt>updated by</dt>\n<dd>{added}" in text
    assert f", as of run {joined.run_id}</dd>" in text


@pytest.mark.parametrize(
    ("visitor", "headers", "token"),
    [
        ("viewer", {}, None),
        ("editor", {}, ""),
        ("editor", {}, "forged"),
        ("editor", {"sec-fetch-site": "cross-site"}, None),
        ("editor", {"sec-fetch-site": "same-site"}, None),
    ],
)
def test_others_change_no_alert(pages, shelf, visitor, headers, token):
    alert = shelf.alert()
    form = {"token": token_of(pages.text("/alerts")) if token is None else token, "state": "fixed"}
    with pages.seen_by(visitor) as client:
        assert client.post(f"/alerts/{alert.id}", data=form, headers=headers).status_code == 403
    assert AlertStore(shelf.store("")).alerts() == [alert]


def test_a_state_that_may_not_follow_is_refused(pages, shelf):
    alert = shelf.alert()
    for state, status in (("recovered", 422), ("open", 409), ("nonsense", 422)):
        form = {"token": token_of(pages.text("/alerts")), "state": state}
        assert pages.client.post(f"/alerts/{alert.id}", data=form).status_code == status
    form = {"token": token_of(pages.text("/alerts")), "state": "fixed"}
    assert pages.client.post("/alerts/none", data=form).status_code == 409


def test_costs_by_month_and_target_with_what_comes(pages, shelf):
    run_id = shelf.measured()
    shelf.booked(run_id, 1.25, job=two_targets().jobs[0].job_id, at=NOON)
    shelf.booked("stopped", 31.2, finished=False, at=NOON)
    shelf.booked("elsewhere", 1.0, at=NOON)
    pages.schedule = Schedule(4, paused=True)
    text = pages.text("/costs")
    assert "2026-11: $33.45. 2 runs finished, 1 not finished, counted at the most" in text
    assert 'href="/runs/stopped"' in text
    assert "g5.xlarge: $1.25; unknown target: $1.00" in text
    assert "is paused: its schedule will cost nothing" in text
