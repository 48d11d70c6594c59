"""Our pages in Airflow's own UI, in a real browser: from the form to the figures."""

import json
from urllib.parse import quote, unquote

import httpx
import pytest

from batchmark.changes.alerts.store import AlertStore
from laptop.airflow import USER
from laptop.demo import DAG_ID
from tests.browser import chromium, views
from tests.builders.alerts import opened
from tests.e2e.conftest import VIEWER
from tests.e2e.stacks import store_of, wait_for_end

pytestmark = [
    pytest.mark.airflow_ui,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing())),
]

RUN_SECONDS = 540


def log_in(browser, stack, user):
    """A context of its own, logged in by Airflow's form."""
    passwords = json.loads((stack.airflow.home / "passwords.json").read_text())
    context = browser.new_context(viewport=views.WIDE, accept_downloads=True)
    context.set_default_timeout(chromium.ANSWER_MILLISECONDS)
    page = context.new_page()
    page.goto(stack.airflow.url)
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", passwords[user])
    page.click("button[type=submit]")
    page.wait_for_url(f"{stack.airflow.url}/")
    page.close()  # Airflow's pages ask and draw all the time
    return context


@pytest.fixture(scope="module")
def contexts(stack, airflow):
    """Contexts of the administrator and of the viewer, by user."""
    airflow.wait_for_dag(DAG_ID)
    with chromium.opened() as browser:
        yield {user: log_in(browser, stack, user) for user in (USER, VIEWER)}


@pytest.fixture
def page(contexts, stack):
    page = contexts[USER].new_page()
    asked = views.strangers(page, stack.airflow.url)
    yield page
    page.close()
    assert asked == []


@pytest.fixture(scope="module")
def by_form(contexts, stack, airflow, report):
    """The id of a run that was triggered by Airflow's form and watched to its end."""
    page = contexts[USER].new_page()
    page.goto(f"{stack.airflow.url}/dags/{DAG_ID}")
    page.get_by_role("button", name="Trigger").click()
    form = page.get_by_role("dialog")
    form.get_by_role("combobox").first.fill("smoke")
    page.keyboard.press("Enter")
    for target in ("c5.2xlarge", "g4dn.xlarge"):  # those that Terraform created
        form.get_by_role("combobox").nth(2).click()
        page.get_by_role("option", name=target).click()
    form.get_by_role("button", name="Trigger").click()
    page.wait_for_url("**/runs/*")
    run_id = page.url.rpartition("/runs/")[2]
    page.get_by_role("link", name="Report", exact=True).click()
    frame = page.frame_locator("iframe")
    frame.get_by_text("still running").or_(frame.get_by_text("is queued")).wait_for()
    # Alone the page costs the machine little; it looks again by itself until the report is there.
    page.goto(f"{stack.airflow.url}/batchmark/dag-runs/{DAG_ID}/{run_id}")
    assert wait_for_end(airflow, DAG_ID, unquote(run_id)) == "success"
    page.get_by_role("heading", name="Does the GPU pay off?").wait_for()
    page.close()
    return unquote(run_id)


@pytest.fixture(scope="module")
def alert(aws, by_form):
    store = store_of(aws, by_form)
    (alert,) = opened()
    store.put(f"alerts/{alert.id}.json", alert.model_dump_json())
    return alert


def test_the_runs_report_is_a_click_away_in_airflow(page, stack, by_form):
    page.goto(f"{stack.airflow.url}/dags/{DAG_ID}/runs/{quote(by_form)}")
    page.get_by_role("link", name="Report", exact=True).click()
    answer = page.frame_locator("iframe").locator(".answer")
    answer.wait_for()
    assert "Does the GPU pay off?" in answer.inner_text()
    page.get_by_role("link", name="Batchmark").first.click()
    listed = page.frame_locator("iframe")
    listed.get_by_role("heading", name="Benchmark runs").wait_for()
    assert listed.get_by_text(by_form, exact=True).count() == 1


def test_logs_tell_what_people_need_and_no_more(airflow, by_form):
    for task in airflow.task_instances(DAG_ID, by_form):
        if task["state"] == "success":
            log = airflow.task_log(task)
            for chatter in ("Found credentials", "Found endpoint", "deprecated", "value was"):
                assert chatter not in log, task["task_id"]


def test_two_runs_are_compared_by_the_form(page, stack, by_form, report):
    page.goto(f"{stack.airflow.url}/batchmark/compare")
    page.get_by_label("First run, commit, image or day").fill(by_form)
    page.get_by_label("First target").select_option("c5.2xlarge")
    page.get_by_label("Second run, commit, image or day").fill(report.run_id)
    page.get_by_label("Second target").select_option("c5.2xlarge")
    page.get_by_role("button", name="Compare").click()
    page.locator(".verdict").wait_for()
    assert quote(report.run_id, safe="") in page.url
    assert page.locator("figure svg").count() == 1


def test_an_alert_is_acknowledged(page, stack, aws, alert):
    page.goto(f"{stack.airflow.url}/batchmark/alerts")
    box = page.locator(f"[id='{alert.id}']")
    box.get_by_label("Becomes").select_option("acknowledged")
    box.get_by_label("Why").fill("I look at it")
    box.get_by_role("button", name="Change").click()
    page.locator(f"[id='{alert.id}']").get_by_text("Acknowledged.").wait_for()
    (stored,) = [one for one in AlertStore(store_of(aws, "")).alerts() if one.id == alert.id]
    assert (stored.state, stored.transitions[-1].by) == ("acknowledged", USER)


def test_a_viewer_reads_and_changes_nothing(contexts, stack, aws, alert):
    url = f"{stack.airflow.url}/batchmark/alerts"
    page = contexts[VIEWER].new_page()
    page.goto(url)
    assert page.locator(f"[id='{alert.id}']").count() == 1
    assert page.locator("form").count() == 0
    page.close()
    before = AlertStore(store_of(aws, "")).alerts()
    answer = contexts[VIEWER].request.post(f"{url}/{alert.id}", form={"state": "invalid"})
    assert answer.status == 403
    assert AlertStore(store_of(aws, "")).alerts() == before


def test_without_a_session_nothing_is_shown(stack, by_form):
    for path in ("runs", f"runs/{quote(by_form)}", "trends", "compare", "alerts", "costs"):
        for cookies in ({}, {"_token": "of yesterday"}):
            answer = httpx.get(f"{stack.airflow.url}/batchmark/{path}", cookies=cookies)
            assert (answer.status_code, by_form in answer.text) == (401, False)


@pytest.mark.parametrize(
    "name", ["runs", "report", "trends", "series", "compare", "alerts", "costs", "published"]
)
def test_every_view_stands_screen_readers_and_small_screens(
    page, stack, by_form, report, alert, name
):
    base, one, other = f"{stack.airflow.url}/batchmark", quote(by_form, safe=""), report.run_id
    sides = f"a={one}&a_target=g4dn.xlarge&b={quote(other, safe='')}&b_target=c5.2xlarge"
    paths = {"report": f"runs/{one}", "compare": f"compare?{sides}", "series": "trends"}
    page.goto(f"{base}/{paths.get(name, name)}")
    if name == "series":
        page.locator("table a").first.click()
        page.locator("figure svg").wait_for()
    assert views.barriers(page) == []
    assert views.cut(page) == []
    assert len(views.take_pictures(page, name)) == 4
