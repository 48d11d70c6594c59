"""A schedule of runs through the tasks that find regressions, with a bucket in memory."""

import functools
from copy import deepcopy
from datetime import date, timedelta

import boto3
import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from batchmark.aws.result_bucket import (
    CHANGES,
    CHANGES_SECTION,
    COLLECTED,
    PLAN,
    SUSPECTS,
    RunStore,
)
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.change_points import LEAST_AFTER
from batchmark.changes.records import RunChanges
from batchmark.core.run import CollectedRun, LostJob, RunPlan, WorstCase
from batchmark.history import store as history_store
from batchmark.history.parquet import decode
from batchmark.history.store import HistoryStore, run_prices
from batchmark.orchestration import reruns, run_history
from batchmark.orchestration.tasks import alerts, regressions
from batchmark.report.changes import ChangesSection
from batchmark.runs.collected_runs import readable_run, store_run
from batchmark.runs.planning import plan_jobs
from batchmark.runs.spending import run_spending
from tests.builders.installations import configured, own_types
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    build_job,
    build_row,
    put_documents,
)
from tests.builders.spending import build_spending
from tests.stand_ins.bucket import MemoryBucket

GPU, CPU = "g5.xlarge", "c5.2xlarge"
ENVIRONMENTS = {GPU: GPU_ENVIRONMENT, CPU: CPU_ENVIRONMENT}
SECONDS = {GPU: 0.01, CPU: 0.2}
WORST_CASE = WorstCase(
    targets=(),
    usd=0.0,
    region="us-east-1",
    prices_as_of=date(2026, 11, 20),
    prices_source="the tests' own",
    notes=(),
)


# Each look of a schedule reads all files of those before it; no run is old enough to be left out.
decode_once = functools.cache(decode)


def decode_whole(body, location, schema, *, since=None, run_ids=None):
    if run_ids is not None:
        return decode(body, location, schema, since=since, run_ids=run_ids)
    assert since is None or f"{since:%Y-%m}" < location.month
    return decode_once(body, location, schema)


class Instance:
    """A task instance of a run whose look for suspects ended in this state."""

    dag_id = "gpu_cpu_benchmark"

    def __init__(self, state):
        self.state = state

    def xcom_pull(self, **_):
        return []

    def get_task_states(self, *, run_ids, **_):
        return {run_id: {"find_suspects": self.state} for run_id in run_ids}


class Schedule:
    """Runs of two targets, one row each, whose times are given as factors of SECONDS.

    Attributes:
        quiet: as of `quiet_history`; None where it is made.
    """

    def __init__(self, config, bucket, monkeypatch, quiet=None):
        self.config, self.bucket, self.quiet = config, bucket, quiet
        self.number = 0
        self.fresh = {}  # factors of the next run's fresh jobs, by target
        self._noise = np.random.default_rng(6)
        monkeypatch.setattr(reruns, "collect_run", self._collect)

    @property
    def run_id(self):
        return f"run-{self.number:03}"

    @property
    def context(self):
        params = {"reruns": self.reruns, "max_cost_usd": self.max_cost_usd}
        return {"run_id": self.run_id, "params": params, "ti": None}

    reruns = True
    max_cost_usd = 50
    lost_repeat = None  # the fresh job that leaves nothing

    @property
    def store(self):
        return RunStore.of(self.config, self.run_id)

    def _job(self, planned, factor):
        noise = np.exp(0.004 * self._noise.standard_normal())
        samples = (SECONDS[planned.target] * factor * noise,) * 8
        environment = ENVIRONMENTS[planned.target]
        if factor > 1.05:
            environment = environment.model_copy(update={"driver_version": "590.1"})
        job = build_job(
            planned.target, [build_row(samples)], repeat=planned.repeat, environment=environment
        )
        days = timedelta(days=7 * self.number)
        job_id = f"{self.run_id}-{planned.target}-{planned.repeat}"
        document = job.document.model_copy(
            update={
                "run_id": self.run_id,
                "job_id": job_id,
                "started_at": job.document.started_at + days,
                "finished_at": job.document.finished_at + days,
            }
        )
        return job.model_copy(update={"document": document, "planned": planned, "job_id": job_id})

    def _collect(self, store, batch, logs, *, run_id, planned, job_ids, config):
        found = [one for one in planned if one.repeat != self.lost_repeat]
        lost = [one for one in planned if one not in found]
        run = CollectedRun(
            run_id=run_id,
            jobs=tuple(self._job(one, self.fresh.get(one.target, 1.0)) for one in found),
            lost=tuple(LostJob(planned=one, job_id=None, reason="its host went") for one in lost),
        )
        put_documents(store, run)
        return run

    def measure(self, **factors):
        """A run up to its collected results; factors by 'gpu' and 'cpu'."""
        self.number += 1
        by_target = {GPU: factors.get("gpu", 1.0), CPU: factors.get("cpu", 1.0)}
        self.fresh = dict(by_target)
        planned = plan_jobs(self.config, run_id=self.run_id, suite="blog", targets=[GPU, CPU])
        plan = RunPlan(jobs=tuple(planned), dag_id="gpu_cpu_benchmark")
        self.store.write(PLAN, plan.model_dump_json())
        run = CollectedRun(
            run_id=self.run_id, jobs=tuple(self._job(one, by_target[one.target]) for one in planned)
        )
        HistoryStore.of(self.config).append(run, run_prices(self.store, self.config.region, run))
        self.measured = run

    def keep(self):
        """Store what the run measured, which only the tasks behind it read."""
        put_documents(self.store, self.measured)
        store_run(self.store, self.measured)

    @property
    def collected(self):
        return readable_run(self.store, self.store.prefix + COLLECTED)

    def look(self):
        """The tasks behind it; what was submitted in each round, and the run's changes."""
        if self.store.read_if_there(self.store.prefix + COLLECTED) is None:
            self.keep()
        context = self.context

        context["ti"] = Instance("success")
        once = regressions.find_suspects(context, self.store.prefix + COLLECTED)
        try:
            twice = regressions.find_agreeing(context)
        except AirflowSkipException:
            twice = []
        key = regressions.detect_regressions(context, self.store.prefix + COLLECTED)
        alerts.open_alerts(context, key)
        return len(once), len(twice), RunChanges.model_validate_json(self.store.read(key))

    def run(self, **factors):
        self.measure(**factors)
        return self.look()

    @property
    def alerts(self):
        return AlertStore(self.store).alerts()


def new_schedule(monkeypatch, quiet=None):
    config = configured(targets=own_types(**{GPU: {}, CPU: {}}))
    bucket = MemoryBucket(config.bucket, config.region)
    # Nothing else is asked of AWS: what fresh jobs leave is made up.
    clients = {"s3": bucket, "batch": None, "logs": None}
    monkeypatch.setattr(boto3, "client", lambda name, **_: clients[name])
    monkeypatch.setattr(history_store, "decode", decode_whole)
    for module in (run_history, alerts):
        monkeypatch.setattr(module, "load_config", lambda: config)
    monkeypatch.setattr(alerts, "load_alert_settings", AlertSettings)
    return Schedule(config, bucket, monkeypatch, quiet)


@pytest.fixture(scope="session")
def quiet_history():
    """By number of runs, what a schedule of as many quiet runs has in its bucket, and its noise."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        schedule = new_schedule(monkeypatch)
        found = {}
        for _ in range(20):
            schedule.measure()
            found[schedule.number] = dict(schedule.bucket.objects), deepcopy(schedule._noise)
        return found


@pytest.fixture
def schedule(monkeypatch, quiet_history):
    return new_schedule(monkeypatch, quiet_history)


def quiet_runs(schedule, count):
    """Begin with so many runs at the usual times."""
    objects, noise = schedule.quiet[count]
    schedule.bucket.objects, schedule._noise = dict(objects), deepcopy(noise)
    schedule.number = count


def left(schedule):
    """The history, the alerts, and what the run says has changed."""
    store = schedule.store
    folders = ("history/", "alerts/", f"runs/{store.name}/{CHANGES}")
    return {key: store.read(key) for folder in folders for key in store.keys(folder)}


def test_a_slower_run_that_fresh_jobs_confirm_is_one_alert_in_the_same_run(schedule):
    quiet_runs(schedule, 15)
    once, twice, found = schedule.run(gpu=1.12)
    assert (once, twice) == (1, 2)
    (change,) = found.changes
    assert (change.kind, change.targets, change.first_run_id) == ("slower", (GPU,), "run-016")
    assert change.points[0].change == pytest.approx(0.12, abs=0.02)
    assert [cause.name for cause in change.causes] == ["driver version"]
    (verdict,) = found.confirmations
    assert (verdict.outcome, len(verdict.reruns)) == ("confirmed", 3)
    (alert,) = schedule.alerts
    assert alert.state == "open"


@pytest.mark.parametrize("lost", [2, 3])
def test_a_fresh_job_that_is_lost_leaves_it_to_the_other_two(schedule, lost):
    quiet_runs(schedule, 15)
    schedule.lost_repeat = lost
    once, twice, found = schedule.run(gpu=1.12)
    assert (once, twice) == (1, 2)
    (verdict,) = found.confirmations
    assert (verdict.outcome, verdict.reason) == ("confirmed", "2 fresh jobs agree")
    assert len(schedule.alerts) == 1


def test_a_refuted_outlier_hides_no_level_that_begins_near_it(schedule):
    quiet_runs(schedule, 20)
    schedule.measure(gpu=1.12)
    schedule.fresh = {}
    _, _, found = schedule.look()
    assert [one.outcome for one in found.confirmations] == ["refuted"]
    for _ in range(7):
        schedule.run(gpu=1.06)  # too little for a suspect run
    (alert,) = schedule.alerts
    assert alert.change.first_run_id in {"run-021", "run-022"}


def test_later_runs_on_the_slower_level_cost_no_fresh_job_and_tell_nothing_new(schedule):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    for _ in range(9):
        once, twice, _ = schedule.run(gpu=1.12)
        assert (once, twice) == (0, 0)
    assert [alert.change.first_run_id for alert in schedule.alerts] == ["run-016"]
    assert AlertStore(schedule.store).message("run-017") is None


def test_an_outlier_costs_one_fresh_job_and_no_alert(schedule):
    quiet_runs(schedule, 15)
    schedule.measure(gpu=1.4)
    schedule.fresh = {}
    once, twice, found = schedule.look()
    assert (once, twice) == (1, 0)
    assert found.changes == ()
    (verdict,) = found.confirmations
    assert verdict.outcome == "refuted"
    assert schedule.alerts == []


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


def test_a_small_shift_is_found_by_the_history_and_confirmed_by_fresh_jobs(schedule):
    quiet_runs(schedule, 20)
    rounds = [schedule.run(cpu=1.04) for _ in range(8)]
    (number,) = [i for i, (once, _, _) in enumerate(rounds) if once]
    once, twice, found = rounds[number]
    assert number >= LEAST_AFTER - 1
    assert (once, twice) == (1, 2)
    assert found.confirmations[0].outcome == "confirmed"
    (alert,) = schedule.alerts
    assert alert.change.targets == (CPU,)
    assert alert.change.first_run_id == "run-021"


def test_a_level_too_small_to_tell_is_confirmed_once_and_not_looked_at_again(schedule):
    quiet_runs(schedule, 20)
    submitted = [sum(schedule.run(cpu=1.024)[:2]) for _ in range(12)]
    assert sorted(submitted)[-2:] == [0, 3]
    assert schedule.alerts == []


def test_a_small_shift_that_fresh_jobs_refute_is_not_looked_at_again(schedule):
    quiet_runs(schedule, 20)
    submitted = []
    for _ in range(9):
        schedule.measure(cpu=1.04)
        schedule.fresh = {}
        once, twice, found = schedule.look()
        submitted.append(once + twice)
        assert found.changes == ()
    assert sorted(submitted)[-2:] == [0, 3]
    assert schedule.alerts == []


def test_without_fresh_jobs_only_what_the_history_shows_is_told(schedule):
    schedule.reruns = False
    quiet_runs(schedule, 15)
    rounds = [schedule.run(gpu=1.12)]
    section = ChangesSection.model_validate_json(
        schedule.store.read(schedule.store.prefix + CHANGES_SECTION)
    )
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


def test_a_failed_look_for_suspects_is_named(schedule):
    schedule.measure()
    schedule.look()
    context = schedule.context | {"ti": Instance("failed")}
    with pytest.raises(AirflowFailException, match="find_suspects failed: see its log"):
        regressions.detect_regressions(context, schedule.store.prefix + COLLECTED)


def test_fresh_jobs_open_the_runs_booking_until_they_are_collected(schedule, monkeypatch):
    config = schedule.config.model_copy(update={"monthly_cap_usd": 100})
    monkeypatch.setattr(run_history, "load_config", lambda: config)
    quiet_runs(schedule, 15)
    schedule.measure(gpu=1.12)
    store, key = schedule.store, f"costs/2026-11/{schedule.run_id}.json"
    plan = RunPlan.model_validate_json(store.read(store.prefix + PLAN))
    update = {"spending_key": key, "worst_case": WORST_CASE}
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
    assert len(closed.job_usd) == 1 + 2 + 3


def test_fresh_jobs_stay_within_the_runs_cap(schedule, capsys):
    schedule.max_cost_usd = 0.01
    quiet_runs(schedule, 15)
    once, twice, found = schedule.run(gpu=1.12)
    assert (once, twice) == (0, 0)
    assert found.changes == ()
    assert "max_cost_usd leaves 0.01" in capsys.readouterr().out


def repeat(schedule):
    """A cleared run's tasks from collect_results on, whose jobs left what they left."""
    store, config = schedule.store, schedule.config
    whole = schedule.collected
    again = {(one.planned.target, one.planned.repeat): one for one in whole.jobs}
    own = [one for one in whole.jobs if one.planned.purpose != "confirmation"]
    collected = whole.model_copy(update={"jobs": tuple(own)})
    store_run(store, collected)
    HistoryStore.of(config).append(collected, run_prices(store, config.region, collected))
    schedule._job = lambda planned, factor: again[planned.target, planned.repeat]
    return schedule.look()


def test_each_task_repeated_leaves_the_same_history_and_the_same_alert(schedule):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    before = left(schedule)
    repeat(schedule)
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


def test_fresh_jobs_that_ran_count_where_a_repeated_run_may_submit_no_more(schedule):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    before = left(schedule)
    schedule.max_cost_usd = 0.01
    once, twice, _ = repeat(schedule)
    assert (once, twice) == (0, 0)
    assert left(schedule) == before


def test_fresh_jobs_are_booked_compared_with_nothing_and_no_part_of_the_series(schedule):
    quiet_runs(schedule, 15)
    schedule.run(gpu=1.12)
    kept = schedule.collected
    assert [job.planned.purpose for job in kept.jobs].count("confirmation") == 3
    table = HistoryStore.of(schedule.config).read(["purpose", "run_id"], run_ids=["run-016"])
    assert table["purpose"].to_pylist().count("confirmation") == 3
    assert len({job.planned.result_prefix for job in kept.jobs}) == len(kept.jobs)


def test_a_run_without_results_is_skipped(schedule):
    schedule.number = 1
    with pytest.raises(AirflowSkipException, match="collect_results"):
        regressions.detect_regressions(schedule.context, None)
    assert schedule.store.read_if_there(schedule.store.prefix + SUSPECTS) is None
