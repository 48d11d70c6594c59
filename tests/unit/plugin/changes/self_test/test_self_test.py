"""What the self-test says of detectors that are known to find this and not that."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from batchmark.changes.self_test.records import Steps
from batchmark.changes.self_test.replay import Replay
from batchmark.changes.self_test.self_test import RUNS_BEFORE_ALARMS, SIZES, try_suite
from batchmark.changes.shares import Rate
from tests.builders.changed_series import build_history, build_key, sizes
from tests.builders.self_test import Threshold, level_histories

GPU, CPU = "g5.xlarge", "c5.2xlarge"


def only_part(tested):
    (part,) = tested.parts
    return part


def steps_in(calls, histories):
    """Of each call, the series that differ from their history and their first such run."""
    original = {history.key: history for history in histories}
    for call in calls:
        found = {}
        for seen in call:
            differs = seen.values != original[seen.key].values[: len(seen.values)]
            if differs.any():
                found[seen.key] = int(np.argmax(differs))
        yield found


def test_what_a_detector_finds_at_once_is_found_in_one_run_and_what_it_cannot_see_never():
    part = only_part(try_suite("blog", level_histories(GPU, CPU), Threshold(0.04), steps=5))
    assert part.source == "history"
    for one in part.steps:
        seen = one.size > 0.04
        cases = 10 if one.machine is None else 5
        assert (one.found.hits, one.found.cases) == (cases if seen else 0, cases)
        assert one.delays == (1,) * one.found.hits
    assert [one.size for one in part.of(None)] == list(SIZES)
    assert {str(machine) for machine in part.machines} == {"g5.xlarge on cuda", "c5.2xlarge on cpu"}


def test_a_step_of_no_size_is_refused():
    none = Rate.of(0, 1)
    with pytest.raises(ValidationError, match="greater than 0"):
        Steps(machine=None, size=0, found=none, found_early=none, delays=())


@pytest.mark.parametrize(
    ("needed", "found", "early"), [(3, 1, 1), (5, 1, 1), (6, 1, 0), (11, 0, 0)]
)
def test_delays_are_runs_until_found_and_end_with_the_wait(needed, found, early):
    histories = level_histories(GPU, runs=40)
    part = only_part(try_suite("blog", histories, Threshold(needed=needed), steps=3))
    large = part.of(None)[-1]
    assert large.delays == (needed,) * found * 3
    assert (large.found.share, large.found_early.share) == (found, early)


def test_the_same_seed_puts_the_same_steps_and_another_one_others():
    histories = level_histories(GPU, CPU, runs=60)

    def placed(seed):
        detector = Threshold()
        tested = try_suite("blog", histories, detector, seed=seed, steps=2)
        return tested, list(steps_in(detector.calls, histories))

    assert placed(1) == placed(1)
    assert placed(1)[1] != placed(2)[1]


def test_steps_lie_amid_runs_without_a_change_with_room_on_both_sides():
    values = np.full(60, 0.1)
    values[30:] = 0.2
    histories = [build_history(key, values) for key in sizes(GPU, "matmul", 3)]
    detector = Threshold()
    try_suite("blog", histories, detector, steps=50)
    starts = {start for found in steps_in(detector.calls, histories) for start in found.values()}
    assert starts
    assert starts <= {*range(10, 21), *range(40, 51)}


def test_few_series_have_a_step_at_a_time_and_none_sees_a_later_run():
    histories = level_histories(GPU, CPU, series=60, runs=24)
    detector = Threshold()
    try_suite("blog", histories, detector, steps=10)
    together = [len(found) for found in steps_in(detector.calls, histories)]
    assert max(together) == 2  # of 120
    for call in detector.calls:
        assert len({len(history.run_ids) for history in call}) == 1


def test_alarms_of_untouched_histories_are_counted_once_with_their_interval():
    calm, moved, passing = np.full((3, 30), 0.1)
    moved[20:] = 0.12
    passing[15] = 0.3
    keys = [build_key(workload=name) for name in ("calm", "moved", "passing")]
    histories = list(map(build_history, keys, (calm, moved, passing)))
    alarms = only_part(try_suite("blog", histories, Threshold(), steps=1)).alarms
    assert alarms.series_runs == 3 * (30 - RUNS_BEFORE_ALARMS)
    assert (alarms.alarms, alarms.withdrawn) == (2, 1)
    assert alarms.per_thousand == pytest.approx(1000 * 2 / 66)
    assert alarms.low == pytest.approx(1000 * 0.2422 / 66, rel=1e-3)  # Poisson, of 2
    assert alarms.high == pytest.approx(1000 * 7.2247 / 66, rel=1e-3)
    # What was known before the first look is none.
    values = np.full(30, 0.1)
    values[6:] = 0.2
    known = only_part(try_suite("blog", [build_history(build_key(), values)], Threshold())).alarms
    assert (known.alarms, known.low) == (0, 0)
    assert known.high == pytest.approx(1000 * 3.6889 / 22, rel=1e-3)


def test_a_short_history_says_so_and_is_tested_on_synthetic_ones_with_its_own_noise():
    rng = np.random.default_rng(5)
    long = level_histories(CPU, series=2)
    short = [
        build_history(key, 0.5 * np.exp(0.01 * rng.standard_normal(12)))
        for key in sizes(GPU, "matmul", 2)
    ]
    detector = Threshold(0.08)
    tested = try_suite("blog", [*long, *short], detector, steps=4)
    real, synthetic = tested.parts
    assert [str(machine) for machine in real.machines] == ["c5.2xlarge on cpu"]
    assert [str(machine) for machine in synthetic.machines] == ["g5.xlarge on cuda"]
    assert (synthetic.source, synthetic.series, synthetic.runs) == ("synthetic", 2, 40)
    assert tested.notes == (
        (
            "g5.xlarge on cuda: no stretch of 20 runs without a change, so steps were "
            "inserted into synthetic histories of 40 runs with their series' own noise."
        ),
    )
    made = [
        history.values
        for call in detector.calls
        for history in call
        if history.run_ids[0].startswith("synthetic") and len(history.run_ids) == 40
    ]
    assert np.median(made[0]) == pytest.approx(0.5, rel=0.02)
    assert 0.003 < np.std(np.log(made[0])) < 0.03


def test_an_empty_history_has_nothing_to_test_and_one_of_nine_runs_still_tells_of_its_alarms():
    nothing = build_history(build_key(), [np.nan, np.nan])
    for histories in ([], [nothing]):
        tested = try_suite("blog", histories, Threshold())
        assert (tested.parts, tested.notes) == ((), ())
    tested = try_suite("blog", level_histories(GPU, series=3, runs=4), Threshold())
    assert tested.parts == ()
    assert tested.notes == ("3 series left out: estimating noise requires at least 5 runs.",)
    tested = try_suite("blog", level_histories(GPU, series=1, runs=9), Threshold())
    assert [(part.source, bool(part.steps)) for part in tested.parts] == [
        ("history", False),
        ("synthetic", True),
    ]
    assert tested.parts[0].alarms.series_runs == 1


def test_a_series_that_lacks_runs_is_waited_for_in_its_own_runs():
    every, seldom = build_key(workload="every"), build_key(workload="seldom")
    values = [0.1] * 80
    sparse = [value if number % 2 else np.nan for number, value in enumerate(values)]
    histories = [build_history(every, values), build_history(seldom, sparse)]
    part = only_part(try_suite("blog", histories, Threshold(needed=4), steps=40))
    assert set(part.of(None)[-1].delays) == {4}


def test_a_replay_orders_runs_by_time_and_a_step_multiplies_from_its_run_on():
    history = build_history(build_key(), [1.0, 2.0, -3.0, 4.0, 5.0])
    odd = replace(
        history,
        run_ids=["run-0", "run-1", "run-2", "run-1", "run-4"],
        recorded_at=history.recorded_at[[4, 1, 2, 3, 0]],
    )
    (one,) = Replay([odd]).series
    assert list(one.series.run_ids) == ["run-4", "run-1", "run-0"]
    assert one.series.values.tolist() == [5.0, 4.0, 1.0]
    assert one.until(1).run_ids == ["run-4", "run-1"]
    (one,) = Replay([build_history(build_key(), [1.0, 2.0, 3.0, 4.0])]).series
    assert one.until(2, (1, 1.5)).values.tolist() == [1.0, 3.0, 4.5]
    assert one.series.values.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_rates_interval_is_wilsons():
    rate = Rate.of(11, 12)
    assert rate.share == pytest.approx(11 / 12)
    assert (rate.low, rate.high) == pytest.approx((0.6461, 0.9851), abs=1e-4)
    assert Rate.of(0, 5).low == 0
