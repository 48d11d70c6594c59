"""The simulation of fresh jobs judges as it says, and takes no harness for granted."""

import pytest

from batchmark.changes import false_alerts
from batchmark.changes.change_points import search
from batchmark.changes.steps import LevelChange
from benchmarks.detector import history_alone, reruns, simulated_schedule
from benchmarks.detector.judged_alerts import Figures, judge
from benchmarks.detector.reruns import (
    JOBS_PER_RUN,
    TUNED,
    constant,
    load,
    make_series,
    prepare,
    series_of,
)
from benchmarks.detector.simulated_schedule import Outcome, play

HARNESS = """
def synth_one(rng, n=120, cv=0.02, step=None, at=None):
    level = [1 + (step or 0) * (step is not None and place >= at) for place in range(n)]
    values = [[one * (1 + cv * rng.standard_normal())] for one in level]
    return dict(samples=values, ups=[] if step is None else [at], downs=[], mag=step)

def synth_sets(seed, reps):
    import numpy
    rng = numpy.random.default_rng(seed)
    series = [synth_one(rng, n=30, cv=0.01, step=0.25, at=15) for _ in range(reps)]
    return [dict(one, grp="step:25%") for one in series]
"""


@pytest.fixture
def harness(tmp_path):
    path = tmp_path / "harness.py"
    path.write_text(HARNESS)
    return load(str(path))


def outcome(*alerts, missing=()):
    seconds = [None if run in missing else [1.0] for run in range(80) for _ in range(JOBS_PER_RUN)]
    step = {"mag": 0.1, "ups": [JOBS_PER_RUN * 30]}
    one = {"grp": "step:10%", "cv": 0.01, "samples": seconds, **step}
    return Outcome(series_of(one, 0), alerts=list(alerts))


def test_a_clear_step_is_told_in_its_first_run_and_costs_three_jobs(harness):
    (series,) = make_series(harness, seed=1, reps=1)
    assert series.cell == "step:25% at 1%"
    assert series.seconds.shape == (30, JOBS_PER_RUN)
    (found,) = play([series])
    assert found.alerts == [(15, 15, "run")]
    assert (found.suspects, found.jobs) == (1, 3)
    figures = Figures.of([judge(found)])
    assert figures.at_once == 1
    assert figures.false_alerts == 0
    assert figures.extra == pytest.approx(3 / 30)
    several = make_series(harness, seed=2, reps=3)
    alone = [own.alerts for one in several for own in play([one])]
    assert [one.alerts for one in play(several)] == alone, "whatever is beside them"


def test_without_fresh_jobs_a_clear_step_is_right_and_an_alert_elsewhere_false(harness):
    (history,) = history_alone.histories_of(harness, seed=1, reps=1)
    assert (history.logs.size, history.rises, history.falls) == (30, [15], [])
    step, other = LevelChange(15, 19), LevelChange(24, 28)
    assert search([history.logs], hindsight=False) == [[step]]
    judged = history_alone.judge(history, [step, other], [step])
    assert (judged.delays, judged.right, judged.found, judged.true) == ([4], 1, 1, 1)
    assert judged.false == int(history_alone.rises(history.logs, other))
    assert " 1.000     1.000" in history_alone.row("one", [judged])
    noise = history_alone.histories_without(seed=1, count=2)
    assert [one.kind for one in noise] == [kind for kind in history_alone.NOISES for _ in "12"]
    assert all(not one.rises and one.logs.std() < 0.2 for one in noise)


@pytest.mark.parametrize(
    ("alerts", "missing", "delay", "false"),
    [
        ([(28, 33, "level"), (31, 31, "run"), (10, 10, "run")], (), 2, ["level", "run"]),
        ([(24, 31, "run")], (), None, ["run"]),  # before the step
        ([(28, 28, "run")], (), None, ["run"]),
        ([(30, 70, "level")], (), None, ["level"]),  # far too late
        ([(30, 34, "level")], (31, 32), 3, []),  # a run without a figure doesn't count
    ],
)
def test_only_the_first_alert_soon_after_a_step_is_right(alerts, missing, delay, false):
    found = judge(outcome(*alerts, missing=missing))
    assert (found.delays, found.false) == ([delay], false)


def test_a_constant_is_a_number_of_the_search_or_the_suspects_and_reaches_them(monkeypatch):
    assert constant("TAIL=.07") == ("TAIL", 0.07)
    assert constant("MOST_ASKED=4") == ("MOST_ASKED", 4)
    assert constant("EVIDENCE=5") == ("EVIDENCE", 5.0)
    for text in ("JOBS_OF_ROUND=1", "NONE=1"):
        with pytest.raises(ValueError, match=r"unknown constant; known: .*EVIDENCE, .*ASK"):
            constant(text)
    for module in TUNED:
        if hasattr(module, "EVIDENCE"):
            monkeypatch.setattr(module, "EVIDENCE", module.EVIDENCE)
    monkeypatch.setattr(simulated_schedule, "ONE_OF", 1)
    prepare({"EVIDENCE": 5.0}, one_of=7)
    assert false_alerts.evidence_of(1, 1.0) == 5.0
    assert simulated_schedule.ONE_OF == 7


def test_without_a_harness_one_line_says_so(tmp_path, monkeypatch, capsys):
    other = tmp_path / "other.py"
    other.write_text("")
    for path, words in (
        ("", "HARNESS= is not a Python file: set it to"),
        (other.with_name("none.py"), "set it to the path of the harness"),
        (other, "does not define synth_one or synth_sets"),
    ):
        monkeypatch.setattr("sys.argv", ["reruns", str(path)])
        assert reruns.main() == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
