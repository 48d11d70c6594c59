"""A run whose tasks ran twice leaves what one leaves that ran once."""

from batchmark.history.store import HistoryStore, run_prices
from batchmark.runs.collected_runs import store_run
from tests.stand_ins.regression_schedule import left, quiet_runs


def repeat(schedule):
    """A cleared run's tasks from collect_results on, whose jobs left what they left."""
    store, config = schedule.store, schedule.config
    whole = schedule.collected
    again = {(one.planned.target, one.planned.repeat): one for one in whole.jobs}
    own = [one for one in whole.jobs if one.planned.purpose != "confirmation"]
    collected = whole.model_copy(update={"jobs": tuple(own)})
    store_run(store, collected)
    HistoryStore.of(config).append(
        collected, run_prices(store, config.region, collected), store.name
    )
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
