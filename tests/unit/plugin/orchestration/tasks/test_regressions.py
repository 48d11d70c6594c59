"""What a schedule of runs finds, confirms, tells and books, and that tasks may run twice."""

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.aws.result_bucket import CHANGES_SECTION, COLLECTED, PLAN, SUSPECTS, noise_key
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.evidence import LEAST_AFTER
from batchmark.core.suites import OWN_DTYPES
from batchmark.history.rebuild import rebuild
from batchmark.history.store import HistoryStore, run_prices
from batchmark.orchestration import run_history
from batchmark.orchestration.tasks import regressions
from batchmark.report.change_records import ChangesSection
from batchmark.runs import result_documents
from batchmark.runs.collected_runs import store_run
from batchmark.runs.spending import run_spending
from tests.builders.pairs import calibration
from tests.builders.spending import build_spending, worst_case
from tests.stand_ins.regression_schedule import GPU, Instance, left, quiet_runs


def test_a_slower_run_that_fresh_jobs_confirm_is_one_alert_in_the_same_run(schedule, monkeypatch):
    quiet_runs(schedule, 15)
    schedule.measure(gpu=1.12)
    with monkeypatch.context() as patch:  # as what was collected is not parsed again
        patch.delattr(result_documents, "parse_document")
        once, twice, found = schedule.look()
    assert (once, twice) == (1, 2)
    (change,) = found.changes
    assert (change.kind, change.targets, change.first_run_id) == ("slower", (GPU,), "run-016")
    assert change.points[0].change == pytest.approx(0.12, abs=0.02)
    assert [cause.name for cause in change.causes] == ["driver version"]
    (verdict,) = found.confirmations
    assert (verdict.outcome, len(verdict.reruns)) == ("confirmed", 3)
    (alert,) = schedule.alerts
    assert alert.state == "open"
    # Fresh jobs are booked, compared with nothing, and no part of the series.
    kept = schedule.collected
    assert [job.planned.purpose for job in kept.jobs].count("confirmation") == 3
    table = HistoryStore.of(schedule.config).read(["purpose", "run_id"], run_ids=["run-016"])
    assert table["purpose"].to_pylist().count("confirmation") == 3
    assert len({job.planned.result_prefix for job in kept.jobs}) == len(kept.jobs)
    config = schedule.config
    rebuilt = rebuild(schedule.bucket, config.bucket, config.region, dry_run=True)
    assert (rebuilt.written, rebuilt.unchanged) == ([], 1)


@pytest.mark.parametrize("lost", [2, 3])
def test_a_fresh_job_that_is_lost_leaves_it_to_the_other_two(schedule, lost):
    quiet_runs(schedule, 15)
    schedule.lost_repeat = lost
    once, twice, found = schedule.run(gpu=1.12)
    assert (once, twice) == (1, 2)
    (verdict,) = found.confirmations
    assert verdict.outcome == "confirmed"
    assert verdict.reason == "with 2 fresh jobs the slower level is certain"
    assert len(schedule.alerts) == 1


def test_an_outlier_costs_one_fresh_job_and_hides_no_level_that_begins_near_it(schedule):
    quiet_runs(schedule, 20)
    schedule.measure(gpu=1.12)
    schedule.fresh = {}
    once, twice, found = schedule.look()
    assert (once, twice, found.changes) == (1, 0, ())
    assert [one.outcome for one in found.confirmations] == ["refuted"]
    assert schedule.alerts == []
    for _ in range(7):
        schedule.run(gpu=1.06)  # too little for a suspect run
    (alert,) = schedule.alerts
    assert alert.change.first_run_id in {"run-021", "run-022"}


def test_later_runs_on_the_slower_level_cost_no_fresh_job_and_tell_nothing_new(schedule):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    (told,) = schedule.alerts
    for _ in range(9):
        once, twice, found = schedule.run(gpu=1.12)
        assert (once, twice, found.confirmations) == (0, 0, ())
        (change,) = found.changes
        assert change.confirmations == told.change.confirmations != ()
    assert [alert.change.first_run_id for alert in schedule.alerts] == ["run-016"]
    assert AlertStore(schedule.store).message("run-017") is None


def test_a_level_that_is_back_closes_its_alert_after_three_runs_and_is_told_once(schedule):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    for _ in range(5):
        schedule.measure(gpu=1.12)
    schedule.measure()
    for state in ("open", "recovered"):
        schedule.run()
        assert [alert.state for alert in schedule.alerts] == [state]
    for _ in range(3):
        schedule.measure()
        schedule.measure()
        schedule.run()
    messages = [one.run_id for one in AlertStore(schedule.store).messages()]
    assert messages == ["run-016", "run-024"]


def test_without_fresh_jobs_only_what_the_history_shows_is_told(schedule):
    schedule.reruns = False
    quiet_runs(schedule, 15)
    rounds = [schedule.run(gpu=1.12)]
    text = schedule.store.read(schedule.store.prefix + CHANGES_SECTION)
    section = ChangesSection.model_validate_json(text)
    assert "reruns" in section.notes[0]
    assert section.confirmations == ()  # nothing was run again
    rounds += [schedule.run(gpu=1.12) for _ in range(5)]
    assert [once for once, _, _ in rounds] == [0] * 6
    assert [len(found.changes) for _, _, found in rounds][: LEAST_AFTER - 1] == [0] * 3
    assert len(rounds[-1][2].changes) == 1


def test_a_level_that_is_over_is_neither_looked_at_again_nor_told(schedule):
    quiet_runs(schedule, 15)
    for number in range(15, 40):
        schedule.measure(gpu=1.12 if number < 25 else 1.0)
    once, _, found = schedule.run()
    assert once == 0
    assert {change.kind for change in found.changes} <= {"faster", "speedup gained"}
    assert schedule.alerts == []


def test_a_change_before_the_newest_thirty_runs_is_no_news(schedule):
    quiet_runs(schedule, 15)
    for _ in range(45):
        schedule.measure(gpu=1.12)
    once, _, found = schedule.run(gpu=1.12)
    assert (once, found.changes) == (0, ())


def test_fresh_jobs_of_an_earlier_life_of_the_run_do_not_count(schedule):
    quiet_runs(schedule, 15)
    once, twice, _ = schedule.run(gpu=1.12)
    assert (once, twice) == (1, 2)
    schedule.number -= 1
    schedule.measure()  # cleared from its first task on, and measured anew
    schedule.keep()
    schedule.look()
    assert len(schedule.collected.jobs) == 2


def test_a_failed_look_for_suspects_is_named_and_a_run_without_results_skipped(schedule):
    schedule.measure()
    schedule.look()
    context = schedule.context | {"ti": Instance("failed")}
    with pytest.raises(AirflowFailException, match="find_suspects failed: fix the cause"):
        regressions.detect_regressions(context, schedule.store.prefix + COLLECTED)
    schedule.number += 1
    with pytest.raises(AirflowSkipException, match="collect_results"):
        regressions.detect_regressions(schedule.context, None)
    assert schedule.store.read_if_there(schedule.store.prefix + SUSPECTS) is None


def test_fresh_jobs_open_the_runs_booking_until_they_are_collected(schedule, monkeypatch):
    config = schedule.config.model_copy(update={"monthly_cap_usd": 100})
    monkeypatch.setattr(run_history, "load_config", lambda: config)
    quiet_runs(schedule, 15)
    schedule.measure(gpu=1.12)
    store, key = schedule.store, f"costs/2026-11/{schedule.run_id}.json"
    plan = store.plan()
    update = {"spending_key": key, "worst_case": worst_case(usd=0.0)}
    store.write(PLAN, plan.model_copy(update=update).model_dump_json())
    settled = build_spending(schedule.run_id, finished=True, job_usd={"first": 1.5})
    store.put(key, settled.model_dump_json())
    schedule.keep()
    regressions.find_suspects(schedule.context, store.prefix + COLLECTED)
    opened = run_spending(store, key)
    worst_of_three = 18.11  # 3 jobs x 2 submissions x 3 attempts of an hour at 1.006, rounded up
    assert (opened.finished, opened.reserved_usd) == (False, worst_of_three)
    assert opened.job_usd == settled.job_usd
    schedule.look()
    closed = run_spending(store, key)
    assert (closed.finished, closed.reserved_usd) == (True, 0.0)
    assert closed.job_usd.keys() == {"first", *(f"run-016-{GPU}-{n}" for n in (2, 3, 4))}


def test_a_calibration_tells_the_noise_of_the_rows_that_it_still_fits(schedule):
    def priors(**factors):
        schedule.measure(**factors)
        schedule.keep()
        run = run_history.RunHistory(schedule.context, schedule.store.prefix + COLLECTED)
        assert run.priors.keys() <= {one.key for one in run.histories["time"]}
        return [key.target for key in run.priors]

    schedule.store.put(noise_key("blog", OWN_DTYPES, GPU), calibration(GPU).to_json())
    assert priors() == [GPU]
    assert priors(gpu=1.12) == []  # with another driver


def repeat(schedule):
    """A cleared run's tasks from collect_results on, whose jobs left what they left."""
    store, config = schedule.store, schedule.config
    whole = schedule.collected
    again = {(one.planned.target, one.planned.repeat): one for one in whole.jobs}
    own = [one for one in whole.jobs if one.planned.purpose != "confirmation"]
    collected = whole.model_copy(update={"jobs": tuple(own)})
    store_run(store, collected)
    prices = run_prices(store, config.region, collected)
    HistoryStore.of(config).append(collected, prices, store.name)
    schedule._job = lambda planned, factor: again[planned.target, planned.repeat]
    return schedule.look()


def test_each_task_repeated_leaves_the_same_history_and_the_same_alert(schedule, capsys):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    before = left(schedule)
    repeat(schedule)
    assert left(schedule) == before
    # Fresh jobs that ran count where a repeated run may submit no more.
    schedule.max_cost_usd = 0.01
    once, twice, _ = repeat(schedule)
    assert (once, twice) == (0, 0)
    assert "max_cost_usd leaves only 0.01" in capsys.readouterr().out
    assert left(schedule) == before


def test_a_level_that_its_run_told_of_is_confirmed_again_where_the_run_is_repeated(schedule):
    quiet_runs(schedule, 20)
    while not schedule.run(cpu=1.04)[0]:
        pass
    assert len(schedule.alerts) == 1
    before = left(schedule)
    once, twice, _ = repeat(schedule)
    assert (once, twice) == (1, 2)
    assert left(schedule) == before
