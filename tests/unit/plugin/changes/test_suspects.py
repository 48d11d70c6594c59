"""Which runs are looked at again, and what fresh jobs make of them."""

import numpy as np
import pytest

from batchmark.changes.detection import detect_changes, recoveries
from batchmark.changes.noise_model import Prior
from batchmark.changes.suspects import (
    confirmed_point,
    needs_more,
    noise_before,
    suspect_levels,
    suspect_runs,
    too_early,
    verdict,
)
from batchmark.report.change_words import confirmation
from tests.builders.changed_series import LEVEL, build_history, build_key, noisy


def key(size=1000, target="g5.xlarge"):
    return build_key(target, parameters=f'{{"size":{size}}}')


def history(values, of=None):
    return build_history(of or key(), values)


def stand(*histories, starts=None, priors=None):
    run_id = histories[0].run_ids[-1]
    return noise_before(histories, run_id, starts=starts or {}, priors=priors or {})


def suspects(*histories, uncertainty=None, **known):
    return suspect_runs(stand(*histories, **known), uncertainty or {})


def with_newest(factor, count=20, **noise):
    return history([*noisy(count, **noise), LEVEL * factor])


def test_a_run_beyond_its_noise_is_a_suspect_and_one_within_is_none():
    (found,) = suspects(with_newest(1.12))
    assert (found.kind, found.run_id) == ("run", "run-20")
    assert found.expected == pytest.approx(LEVEL, rel=0.01)
    assert suspects(with_newest(1.02)) == []
    assert suspects(with_newest(1.12, log_sd=0.1)) == []


def test_a_faster_run_is_no_suspect():
    assert suspects(with_newest(0.7)) == []


def test_a_run_whose_own_samples_reach_the_level_is_no_suspect():
    one = with_newest(1.12)
    assert suspects(one, uncertainty={one.key: 0.05})
    assert suspects(one, uncertainty={one.key: 0.2}) == []


@pytest.mark.parametrize(("runs", "count"), [(5, 0), (6, 1)])
def test_a_level_of_few_runs_has_no_suspects(runs, count):
    assert len(suspects(with_newest(1.3, count=runs))) == count


def test_a_told_change_begins_a_level_of_its_own():
    values = [*noisy(20), *(1.12 * noisy(4, seed=1))]
    one = history(values)
    assert one.key in stand(one)
    assert one.key not in stand(one, starts={one.key: {"run-20"}})  # too few runs on it yet


def test_a_calibration_that_knows_more_noise_makes_fewer_suspects():
    one = with_newest(1.1, count=7, log_sd=0.002)
    assert suspects(one)
    assert suspects(one, priors={one.key: Prior(0.2, 5)}) == []


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


def judge(one, reruns):
    (suspect,) = suspects(one)
    return verdict(
        stand(one)[one.key],
        suspect,
        reruns,
        job_ids=[str(number) for number in range(len(reruns))],
        hosts=len(reruns),
    )


def test_three_slow_fresh_jobs_confirm_a_suspect():
    one = with_newest(1.12)
    found = judge(one, [1.11 * LEVEL, 1.13 * LEVEL, 1.12 * LEVEL])
    assert (found.outcome, found.reason) == ("confirmed", "3 fresh jobs agree")
    point = confirmed_point(one, stand(one)[one.key], found)
    assert (point.first_run_id, point.last_run_id) == ("run-20", "run-19")
    assert point.change == pytest.approx(0.12, abs=0.02)
    assert point.after.runs == 1
    assert point.worse


def test_one_fresh_job_at_the_old_level_refutes_and_asks_for_no_more():
    one = with_newest(1.4)
    (suspect,) = suspects(one)
    assert not needs_more(stand(one)[one.key], suspect, [LEVEL])
    found = judge(one, [LEVEL])
    assert found.outcome == "refuted"
    assert found.reason == "a fresh job was not slow; the run's 40 % were its own"


def test_fresh_jobs_within_the_noise_refute_together():
    one = with_newest(1.12)
    assert judge(one, [1.06 * LEVEL, LEVEL, 0.99 * LEVEL]).outcome == "refuted"


@pytest.mark.parametrize("reruns", [[], [1.12 * LEVEL]])
def test_too_few_fresh_figures_settle_nothing(reruns):
    assert judge(with_newest(1.12), reruns).outcome == "unsettled"


def test_two_fresh_figures_must_be_the_surer():
    one = with_newest(1.18, log_sd=0.05)
    near, far = 1.08 * LEVEL, 1.14 * LEVEL
    assert judge(one, [far, far]).outcome == "confirmed"
    assert judge(one, [near, near]).outcome == "refuted"
    assert judge(one, [near, near, near]).outcome == "confirmed"


def outcomes(seed):
    """Of a run that may be slower: whether it is a suspect, and what fresh jobs say of it.

    Three and two of them, and three as if the run began a new level.
    """
    rng = np.random.default_rng(seed)
    log_sd, shift = rng.choice([0.01, 0.03, 0.05]), rng.uniform(0.05, 0.3)
    values = [LEVEL * np.exp(log_sd * rng.standard_normal(21)) for _ in range(4)]
    values[0][-1] = LEVEL * np.exp(shift)
    before = stand(*(history(own, key(size)) for size, own in enumerate(values)))
    reruns = LEVEL * np.exp(rng.uniform(0.2, 1.2) * shift + log_sd * rng.standard_normal(3))
    suspect = next((one for one in suspect_runs(before, {}) if one.series == key(0)), None)
    if suspect is None:
        return None
    level = suspect.model_copy(update={"kind": "level"})
    return tuple(
        verdict(before[key(0)], one, list(some), job_ids=(), hosts=None).outcome
        for one, some in ((suspect, reruns), (suspect, reruns[:2]), (level, reruns))
    )


# By seed. Chosen so that each constant decides one of them, as those of the search do in
# test_change_points.
OUTCOMES = {
    8: None,
    71: ("confirmed", "confirmed", "refuted"),
    79: None,
    85: ("confirmed", "confirmed", "confirmed"),
    110: ("confirmed", "confirmed", "unsettled"),
    142: ("refuted", "refuted", "refuted"),
    148: ("refuted", "refuted", "refuted"),
    206: ("confirmed", "refuted", "confirmed"),
    303: ("refuted", "refuted", "refuted"),
    468: ("confirmed", "confirmed", "unsettled"),
}


def test_the_constants_decide_as_they_were_set():
    assert {seed: outcomes(seed) for seed in OUTCOMES} == OUTCOMES


def test_a_first_fresh_job_without_a_figure_leaves_it_to_the_others():
    one = with_newest(1.12)
    (suspect,) = suspects(one)
    assert needs_more(stand(one)[one.key], suspect, [])


@pytest.mark.parametrize(
    ("factors", "outcome"),
    [
        ((1.04, 1.04, 1.04), "confirmed"),
        ((1.0, 1.0, 1.0), "refuted"),
        ((1.018, 1.02, 1.019), "unsettled"),
    ],
)
def test_a_new_level_of_the_history_is_refuted_by_counter_evidence_only(factors, outcome):
    one = history([*noisy(25, log_sd=0.01), *(1.04 * noisy(12, seed=1, log_sd=0.01))])
    (suspect,) = suspect_levels(detect_changes([one]), {})
    assert (suspect.kind, suspect.run_id) == ("level", "run-25")
    before = noise_before([one], suspect.run_id, starts={}, priors={})[one.key]
    reruns = [LEVEL * factor for factor in factors]
    found = verdict(before, suspect, reruns, job_ids=["1", "2", "3"], hosts=None)
    assert found.outcome == outcome


def test_of_a_level_before_which_there_was_too_little_the_history_decides():
    one = history([*noisy(25), *(1.1 * noisy(8, seed=1))])
    (suspect,) = suspect_levels(detect_changes([one]), {})
    found = verdict(None, suspect, [LEVEL] * 3, job_ids=["1", "2", "3"], hosts=None)
    assert found.outcome == "unsettled"


def test_a_level_that_was_told_or_is_faster_is_not_looked_at_again():
    one = history([*noisy(25), *(1.1 * noisy(8, seed=1))])
    points = detect_changes([one])
    assert suspect_levels(points, {one.key: {"run-24"}}) == []
    faster = history([*noisy(25), *(0.8 * noisy(8, seed=1))])
    assert suspect_levels(detect_changes([faster]), {}) == []


def slower_then(*factors):
    values = [*noisy(20), *(1.12 * noisy(8, seed=1))]
    (point,) = detect_changes([history(values)])
    later = LEVEL * np.array(factors)
    return list(recoveries([history([*values, *later])], [point]))


def test_three_runs_at_the_old_level_are_a_recovery():
    (point,) = slower_then(1.0, 1.01, 0.99)
    assert point.first_run_id == "run-28"
    assert not point.worse
    assert point.after.median == pytest.approx(LEVEL, rel=0.02)


@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.0, 1.0, 1.12), (1.1, 1.11, 1.12, 1.1)])
def test_fewer_runs_or_slow_ones_are_none(factors):
    assert slower_then(*factors) == []


def test_an_alert_of_a_series_that_is_gone_never_recovers():
    (point,) = detect_changes([history([*noisy(20), *(1.12 * noisy(8, seed=1))])])
    assert list(recoveries([], [point])) == []
    assert list(recoveries([history(noisy(5))], [point])) == []


def test_a_history_too_short_for_any_change_says_from_when_one_shows():
    assert too_early(12) == (
        "Not known yet: the longest history has 12 runs. A change needs 13 runs to show; 7 "
        "if a slow run is measured again and stays slow."
    )
    assert "has 1 run." in too_early(1)
    assert too_early(13) is None


@pytest.mark.parametrize(("runs", "found"), [(12, 0), (13, 1)])
def test_a_change_shows_from_as_many_runs_as_a_short_history_is_told(runs, found):
    values = [*noisy(runs - 4), *(1.3 * noisy(4, seed=1))]
    assert len(detect_changes([history(values)])) == found


def test_a_verdict_tells_how_many_instances_are_other_ones():
    one = with_newest(1.12)
    (suspect,) = suspects(one)
    found = verdict(
        stand(one)[one.key],
        suspect,
        [1.12 * LEVEL] * 3,
        job_ids=["1", "2", "3"],
        hosts=2,
        other_hosts=0,
    )
    assert "on 2 instances (none other than the run's own)" in confirmation(found)
