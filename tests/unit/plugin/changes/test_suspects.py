"""Which runs are looked at again, and what fresh jobs make of them."""

from dataclasses import replace

import numpy as np
import pytest

from batchmark.changes.detection import detect_changes, recoveries
from batchmark.changes.evidence import LEAST_AFTER, LEAST_BEFORE
from batchmark.changes.noise_model import Prior
from batchmark.changes.suspects import (
    LEAST_HISTORY,
    MOST_ASKED,
    needs_more,
    suspects_among,
    too_early,
    verdict,
    weigh,
    why_unwatchable,
)
from batchmark.changes.timelines import ledger
from batchmark.core import formatting
from batchmark.report.changes.words import confirmation, level
from tests.builders.changed_series import LEVEL, build_history, build_key, noisy


def key(size=1000, target="g5.xlarge"):
    return build_key(target, parameters=f'{{"size":{size}}}')


def history(values, of=None, fresh=None):
    return replace(build_history(of or key(), values), fresh=fresh or {})


def weighed(*histories, priors=None):
    return weigh(histories, histories[0].run_ids[-1], priors or {})


def suspects(*histories, uncertainty=None, priors=None):
    return suspects_among(histories, weighed(*histories, priors=priors), uncertainty or {})


def with_newest(factor, count=20, **noise):
    return history([*noisy(count, **noise), LEVEL * factor])


def test_a_run_beyond_its_noise_is_a_suspect_and_one_within_or_a_faster_one_is_none():
    (found,) = suspects(with_newest(1.12))
    assert (found.kind, found.run_id) == ("run", "run-20")
    assert found.expected == pytest.approx(LEVEL, rel=0.01)
    assert suspects(with_newest(1.02)) == []
    assert suspects(with_newest(1.12, log_sd=0.1)) == []
    assert suspects(with_newest(0.7)) == []


def test_wide_samples_or_a_calibration_that_knows_more_noise_make_fewer_suspects():
    one = with_newest(1.12, count=8)
    assert suspects(one, uncertainty={one.key: 0.05})
    assert suspects(one, uncertainty={one.key: 0.2}) == []
    one = with_newest(1.1, count=8, log_sd=0.002)
    assert suspects(one)
    assert suspects(one, priors={one.key: Prior(0.2, 5)}) == []


@pytest.mark.parametrize(("runs", "count"), [(LEAST_BEFORE - 1, 0), (LEAST_BEFORE, 1)])
def test_a_level_of_few_runs_has_no_suspects(runs, count):
    assert len(suspects(with_newest(1.3, count=runs))) == count


def test_several_runs_that_are_a_little_slow_are_a_suspect_until_they_show():
    slow = 1.05 * noisy(2, seed=1, log_sd=0.01)
    one = history([*noisy(40, seed=2, log_sd=0.02), *slow])
    assert detect_changes([one]) == []
    (found,) = suspects(one)
    assert (found.kind, found.run_id) == ("level", "run-40")
    assert found.seconds == pytest.approx(np.median(slow), rel=1e-4)
    one = history([*noisy(20), *(1.12 * noisy(4, seed=1))])
    assert detect_changes([one])
    assert suspects(one) == []


def test_among_many_series_one_must_be_the_odder():
    odd = [history([*noisy(30, seed=5, log_sd=0.05), LEVEL * 1.1], key(1))]
    others = [history(noisy(31, seed=seed, log_sd=0.05), key(seed)) for seed in range(10, 70)]
    assert suspects(*odd)
    assert suspects(*odd, *others) == []
    elsewhere = [history(one.values, key(target="g6.xlarge")) for one in others[:1]]
    assert suspects(*odd, *elsewhere)


def test_a_bimodal_series_that_takes_its_slower_value_is_no_suspect():
    rng = np.random.default_rng(3)
    values = noisy(60, log_sd=0.01) * np.where(rng.random(60) < 0.4, 1.1, 1.0)
    assert suspects(history([*values, LEVEL * 1.1])) == []


def test_fresh_jobs_that_never_settle_it_are_not_asked_for_in_each_run():
    asked = {f"run-{20 - number}": [LEVEL] for number in range(1, MOST_ASKED + 1)}
    one = with_newest(1.3)
    assert suspects(replace(one, fresh=dict(list(asked.items())[1:])))
    assert suspects(replace(one, fresh=asked)) == []


def test_fresh_jobs_follow_their_run_in_the_ledger():
    one = history([1.0, 2.0, 3.0], fresh={"run-1": [4.0, 5.0], "run-2": []})
    line = ledger(one)
    assert line.run_ids == ["run-0", "run-1", "run-1", "run-1", "run-2"]
    assert np.exp(line.logs) == pytest.approx([1, 2, 4, 5, 3])
    assert line.recorded_at[1] == line.recorded_at[3] < line.recorded_at[4]
    assert ledger(one, 1).run_ids == ["run-2"]


def with_fresh(one, *factors):
    return replace(one, fresh={one.run_ids[-1]: [LEVEL * factor for factor in factors]})


def judge(one, *factors):
    (suspect,) = suspects(one)
    reruns = [LEVEL * factor for factor in factors]
    return verdict(
        suspect,
        reruns,
        weighed(one)[one.key],
        detect_changes([with_fresh(one, *factors)]),
        job_ids=[str(number) for number in range(len(reruns))],
        hosts=len(reruns),
        other_hosts=0,
    )


def test_three_slow_fresh_jobs_let_a_level_show_in_its_first_run():
    one = with_newest(1.12)
    found = judge(one, 1.11, 1.13, 1.12)
    assert (found.outcome, found.reason) == (
        "confirmed",
        "with 3 fresh jobs the slower level is certain",
    )
    assert "on 3 instances (none other than the run's own)" in confirmation(found)
    (point,) = detect_changes([with_fresh(one, 1.11, 1.13, 1.12)])
    assert (point.first_run_id, point.last_run_id) == ("run-20", "run-19")
    assert point.change == pytest.approx(0.12, abs=0.02)
    assert (point.before.runs, point.before.fresh) == (20, 0)
    assert level(point.after).endswith(", 1 run and 3 fresh jobs")
    assert point.near_run_ids == ("run-17", "run-18", "run-19", "run-20")


def test_a_level_that_only_fresh_jobs_are_on_begins_with_their_run_from_eight_runs_on():
    one = with_fresh(with_newest(1.0), *[1.2] * LEAST_AFTER)
    (point,) = detect_changes([one])
    assert (point.first_run_id, point.last_run_id) == ("run-20", "run-19")
    for runs, found in ((7, 0), (8, 1)):
        one = with_newest(1.3, count=runs - 1)
        assert len(detect_changes([with_fresh(one, 1.3, 1.31, 1.3)])) == found


def more(one, *factors):
    fresh = with_fresh(one, *factors)
    return needs_more(fresh.fresh[one.run_ids[-1]], weighed(fresh).get(one.key))


def test_one_fresh_job_at_the_old_level_refutes_and_asks_for_no_more():
    one = with_newest(1.4)
    assert not more(one, 1.0)
    found = judge(one, 1.0)
    assert (found.outcome, found.reason) == ("refuted", "1 fresh job was at the old level")
    # A slow first one, or one without a figure, does ask.
    assert more(with_newest(1.12), 1.12)
    assert more(with_newest(1.0))


def test_fresh_jobs_that_fit_both_levels_leave_it_open():
    found = judge(with_newest(1.1, log_sd=0.03), 1.05)
    assert found.outcome == "unsettled"
    assert found.reason == "1 fresh job can't tell the levels apart; the next runs will"
    nothing = judge(with_newest(1.12))
    assert (nothing.outcome, nothing.reason) == ("unsettled", "no fresh job produced a result")


def test_evidence_gathers_over_runs_and_their_fresh_jobs():
    """What one run and its fresh jobs can't show, the next run's complete."""
    values = [*noisy(40, seed=4, log_sd=0.035), 1.07 * LEVEL, 1.07 * LEVEL]
    fresh = {"run-40": [1.06 * LEVEL, 1.08 * LEVEL], "run-41": [1.07 * LEVEL] * 3}
    assert detect_changes([history(values[:41], fresh={"run-40": fresh["run-40"]})]) == []
    (point,) = detect_changes([history(values, fresh=fresh)])
    assert point.first_run_id == "run-40"
    assert detect_changes([history(values)]) == []


def outcomes(seed):
    """Of runs that may be slower: which are suspects, and what fresh jobs say of them."""
    rng = np.random.default_rng(seed)
    log_sd, shift = rng.choice([0.01, 0.03, 0.05]), rng.uniform(0.03, 0.3)
    slow = int(rng.integers(1, 4))
    values = LEVEL * np.exp(log_sd * rng.standard_normal((4, 40)))
    values[0, -slow:] *= np.exp(shift)
    every = [history(own, key(size)) for size, own in enumerate(values)]
    suspect = next((one for one in suspects(*every) if one.series == key(0)), None)
    if suspect is None:
        return None
    factors = np.exp(rng.uniform(0.0, 1.2) * shift + log_sd * rng.standard_normal(3))
    found = verdict(
        suspect,
        list(LEVEL * factors),
        weighed(*every)[key(0)],
        detect_changes([with_fresh(every[0], *factors)]),
        job_ids=(),
        hosts=None,
    )
    return suspect.kind, more(every[0], factors[0]), found.outcome


# By seed. Chosen so that TAIL, ASK and MORE decide one of them each, as the constants of the search
# do in test_change_points.
OUTCOMES = {
    109: ("level", True, "confirmed"),
    151: ("run", False, "refuted"),
    162: None,
    175: ("level", False, "confirmed"),
    225: None,
    329: None,
    392: ("run", False, "refuted"),
}


def test_the_constants_decide_as_they_were_set():
    assert {seed: outcomes(seed) for seed in OUTCOMES} == OUTCOMES


def test_series_whose_slow_runs_come_in_a_row_are_named_as_hard_to_watch():
    rng = np.random.default_rng(1)
    slow = np.repeat(rng.random(30) < 0.4, 4)  # visits of four runs
    sticky = history(noisy(120, log_sd=0.01) * np.where(slow, 1.08, 1.0), key(1))
    steady = history(noisy(120, seed=1), key(2))
    assert why_unwatchable(weighed(steady)) is None
    assert why_unwatchable(weighed(sticky, steady)).startswith(
        "1 of 2 series can't be watched closely (matmul size 1, float32 on g5.xlarge): "
        "their slow runs occur in clusters"
    )


SLOWER = [*noisy(20), *(1.12 * noisy(8, seed=1))]


@pytest.fixture(scope="module")
def slower():
    (point,) = detect_changes([history(SLOWER)])
    return point


def after_slower(*factors):
    return [history([*SLOWER, *(LEVEL * np.array(factors))])]


def test_three_runs_at_the_old_level_are_a_recovery(slower):
    (point,) = recoveries(after_slower(1.0, 1.01, 0.99), [slower])
    assert point.first_run_id == "run-28"
    assert not point.worse
    assert point.after.median == pytest.approx(LEVEL, rel=0.02)


@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.0, 1.0, 1.12), (1.1, 1.11, 1.12, 1.1)])
def test_fewer_runs_or_slow_ones_are_none(slower, factors):
    assert list(recoveries(after_slower(*factors), [slower])) == []


def test_an_alert_of_a_series_that_is_gone_or_moved_with_others_is_not_back_by_three_runs(slower):
    assert list(recoveries([], [slower])) == []
    assert list(recoveries([history(noisy(5))], [slower])) == []
    back = after_slower(1.0, 1.0, 1.0)
    assert list(recoveries(back, [slower]))
    assert list(recoveries(back, [slower.model_copy(update={"common": True})])) == []


@pytest.mark.parametrize(
    ("runs", "needed", "days", "weeks"),
    [
        (1, "10 more, or 7 if", "10 days", "10 weeks"),
        (LEAST_BEFORE, "4 more, or 1 if", "4 days", "4 weeks"),
        (LEAST_BEFORE + 1, "3 more, or none if", "3 days", "3 weeks"),
        (LEAST_HISTORY - 1, "1 more, or none if", "1 day", "1 week"),
    ],
)
def test_a_history_too_short_for_any_change_says_how_many_runs_it_needs(runs, needed, days, weeks):
    assert too_early(runs) == (
        "Not known yet against earlier runs: the longest history has "
        f"{formatting.count(runs, 'run')}. An alert "
        f"needs {needed} a slow run is measured again and stays slow. That takes {days} "
        f"with daily runs or {weeks} with weekly runs. More repeats reveal smaller changes."
    )
    assert too_early(LEAST_HISTORY) is None
