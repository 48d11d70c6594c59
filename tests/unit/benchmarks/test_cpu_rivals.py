"""The benchmark of CPU implementations: its plain calls compute the same, its verdict is right."""

import io
import itertools
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from rich.console import Console

from batchmark_job.machine import memory
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.workers import StepError
from batchmark_job.suites import Point
from batchmark_job.workloads.builtin import WORKLOADS
from benchmarks.job import cpu_rivals, plain_calls, rival_verdicts
from benchmarks.job.cpu_rivals import Choice, ComparisonError, Runner, compare, points, take_turns
from benchmarks.job.plain_calls import PLAIN_CALLS, PlainCall, as_tensor, seconds_as_published
from benchmarks.job.rival_verdicts import Comparison, Round, report
from tests.stand_ins.workers import bench_here

SIZE = {"sequence": 24, "batch": 2, "size": 40}
CASES = [
    pytest.param(name, plain, id=f"{name}-{plain.name}")
    for name, calls in PLAIN_CALLS.items()
    if not name.startswith("resnet50")  # too slow here; the benchmark checks every call itself
    for plain in calls
]
QUICK = RowLimits(max_seconds=0.01)
MATMUL = Point("matmul", {"size": 40})


def small(name):
    return {axis.name: SIZE.get(axis.name, axis.default or 1) for axis in WORKLOADS[name].axes}


def times(parameters, ours, plain):
    point = Point("matmul", parameters)
    return Comparison(point, ours, ["numpy"] * len(ours), plain, as_published=[0.4, 0.2, 0.3])


@pytest.mark.parametrize(("name", "plain"), CASES)
def test_plain_calls_are_correct(name, plain):
    problem = Problem(WORKLOADS[name], small(name), "float32", "cpu")
    with torch.inference_mode(not problem.workload.needs_gradients):
        output = as_tensor(plain.prepare(problem.inputs(0))())
    correctness, wrong = problem.check(problem.inputs(0), output)
    assert wrong is None
    assert correctness is not None


def test_a_wrong_result_of_a_plain_call_or_of_our_own_is_an_error(monkeypatch):
    wrong = PlainCall("transposed", lambda inputs: lambda: (inputs[0] @ inputs[1]).T)
    monkeypatch.setattr(cpu_rivals, "PLAIN_CALLS", {"matmul": [wrong]})
    monkeypatch.setattr(plain_calls, "PLAIN_CALLS", {"matmul": [wrong]})
    with pytest.raises(ComparisonError, match=r"^matmul size 40 by transposed on 1: relative"):
        compare(MATMUL, bench_here(QUICK), 3, 60.0)
    monkeypatch.setattr(WORKLOADS["matmul"], "relative_error", lambda *_: 1.0)
    with pytest.raises(ComparisonError, match=r"^matmul size 40: our side failed: wrong result"):
        compare(MATMUL, bench_here(QUICK), 3, 60.0)


def test_one_size_is_compared_round_by_round():
    comparison = compare(MATMUL, bench_here(QUICK), 3, 0.0)
    assert comparison.skipped is None
    assert set(comparison.plain) == {"torch @ on 1", "NumPy @ on 1", "SciPy gemm on 1"}
    rounds = len(comparison.ours)
    assert rounds >= 3
    assert len(comparison.implementations) == len(comparison.ratios) == rounds
    assert all(3 <= len(one) <= rounds for one in comparison.plain.values())
    assert len(comparison.as_published) == 3
    assert min(comparison.as_published) > 0
    huge = compare(Point("matmul", {"size": 200_000}), bench_here(QUICK), 3, 60.0)
    assert huge.skipped == "there is not enough memory to hold the data twice"


ROW = SimpleNamespace(close=lambda: None)


def quick_choice(*_):
    started = cpu_rivals.time.perf_counter()
    took = cpu_rivals.time.perf_counter() - started
    return Choice(ROW, None, took)


def compared(monkeypatch, budget_seconds=60.0, choose=quick_choice, **plain):
    """Of rounds in which ours takes 2 s and each plain call what its list says, again and again."""
    turns = {f"{name} on 1": itertools.cycle(seconds) for name, seconds in plain.items()}

    def run_round(*arguments, **_):
        return Round(2.0, "numpy", {call.name: next(turns[call.name]) for call in arguments[3]})

    calls = [PlainCall(name, lambda inputs: lambda: inputs) for name in plain]
    monkeypatch.setattr(cpu_rivals, "choose", choose)
    monkeypatch.setattr(cpu_rivals, "run_round", run_round)
    monkeypatch.setattr(cpu_rivals, "PLAIN_CALLS", {"matmul": calls})
    return compare(MATMUL, bench_here(QUICK), 3, budget_seconds)


@pytest.mark.parametrize(
    ("plain", "rounds"),
    [
        ({"close": [1.0, 4.0]}, [36]),
        ({"close": [1.0, 1.5]}, [6]),
        ({"close": [4.0]}, [3]),
        ({"close": [1.0, 4.0], "far": [9.0]}, [36, 3]),  # which can't be the fastest
    ],
)
def test_rounds_follow_until_it_is_clear_who_is_faster(monkeypatch, plain, rounds):
    comparison = compared(monkeypatch, **plain)
    assert [len(found) for found in comparison.plain.values()] == rounds
    assert len(comparison.ratios) == max(rounds)
    assert comparison.fastest_plain == "close on 1"


@pytest.mark.parametrize(("plain", "fewest", "most"), [([1.0, 1.5], 3, 5), ([1.0, 4.0], 15, 25)])
def test_rounds_that_disagree_get_more_time(monkeypatch, plain, fewest, most):
    ticks = itertools.count()  # two in a trial, one where the budget is looked at
    for module in (cpu_rivals, rival_verdicts):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    assert fewest <= len(compared(monkeypatch, 10.0, plain=plain).ratios) <= most


def test_a_plain_call_is_timed_on_every_number_of_threads(monkeypatch):
    seen = []

    def run_round(point, bench, ours, calls, **_):
        seen.append([call.name for call in calls])
        return Round(2.0, "numpy", {call.name: float(call.threads) for call in calls})

    monkeypatch.setattr(cpu_rivals, "choose", quick_choice)
    monkeypatch.setattr(cpu_rivals, "run_round", run_round)
    bench = replace(bench_here(QUICK), thread_counts=(4, 2, 1))
    comparison = compare(MATMUL, bench, 3, 0.0)
    assert {"torch @ on 4", "torch @ on 2", "torch @ on 1"} < set(seen[0])
    assert comparison.fastest_plain.endswith(" on 1")


def test_turns_are_taken_until_the_time_is_up():
    worker = mock.Mock(
        **{"ours.ask.return_value": [0.5, 1.5], "plain.ask.return_value": [0.5, 1.5]}
    )
    sides = [Runner(name, getattr(worker, name)) for name in ("ours", "plain")]
    take_turns(sides, seconds=0.0)
    order = [name for name, *_ in worker.mock_calls]
    assert all(sorted(pair) == ["ours.ask", "plain.ask"] for pair in (order[:2], order[2:]))
    assert len(order) == 4
    assert [side.median for side in sides] == [1.0, 1.0]


@pytest.mark.parametrize(("trial_seconds", "choices"), [(1.0, 3), (1e3, 1)])
def test_a_long_trial_is_held_once(monkeypatch, trial_seconds, choices):
    chosen = []

    def choose(*_):
        chosen.append(Choice(ROW, None, trial_seconds))
        return chosen[-1]

    compared(monkeypatch, choose=choose, plain=[4.0])
    assert len(chosen) == choices


@pytest.mark.parametrize(("rounds_with_room", "skipped"), [(0, True), (3, False)])
def test_memory_that_runs_short_ends_a_size_and_keeps_its_rounds(
    monkeypatch, rounds_with_room, skipped
):
    held = []

    def run_round(point, bench, ours, calls, **_):
        held.append(Round(1.0, "numpy", {call.name: 2.0 for call in calls}))
        return held[-1]

    def shortage(*_):
        return "no room" if len(held) == rounds_with_room else None

    monkeypatch.setattr(cpu_rivals, "run_round", run_round)
    monkeypatch.setattr(memory, "shortage", shortage)
    comparison = compare(MATMUL, bench_here(QUICK), 4, 60.0)
    assert ("no room" in (comparison.skipped or "")) == skipped
    assert len(comparison.ours) == rounds_with_room


@pytest.mark.parametrize("too_large", [["NumPy @ on 1"], ["NumPy @ on 1", "torch @ on 1"]])
def test_where_memory_does_not_hold_all_sides_each_runs_alone(monkeypatch, too_large):
    groups = []

    def take_part(sides, *_, check):
        groups.append([side.name for side in sides])
        if groups[-1][0] in too_large:
            raise StepError("killed", out_of_memory=True, lost=True)
        return dict.fromkeys(sides, 1.0)

    def has_room(needed_bytes, _):
        """For the data twice, but not for three sides."""
        return needed_bytes <= 2 * most

    bench = bench_here(QUICK)
    ours = WORKLOADS["matmul"].implementations_for(bench.device)
    most = max(one.working_set_bytes({"size": 40}, "float32") for one in ours)
    calls = [PlainCall(name, lambda inputs: lambda: inputs) for name in ("torch @", "NumPy @")]
    monkeypatch.setattr(cpu_rivals, "PLAIN_CALLS", {"matmul": calls})
    monkeypatch.setattr(cpu_rivals, "take_part", take_part)
    monkeypatch.setattr(memory, "has_room", has_room)
    comparison = compare(MATMUL, bench, 3, 0.0)
    assert {len(group) for group in groups} == {1}
    assert sorted(comparison.out_of_memory) == too_large
    if len(too_large) == len(calls):
        assert comparison.skipped == "there is not enough memory for any plain call"
    else:
        assert comparison.passed
        assert "; out of memory: NumPy @ on 1" in rival_verdicts.line(comparison)
        assert [sum(name in group for group in groups) for name in too_large] == [1]


def test_a_size_that_fails_costs_itself_alone(monkeypatch, capsys):
    def compare_or_fail(point, *_):
        if point.parameters == {"size": 256}:
            raise ComparisonError("matmul size 256 by torch: its process was killed")
        return times(point.parameters, [1.0] * 3, {"torch @": [1.0] * 3})

    monkeypatch.setattr(cpu_rivals, "compare", compare_or_fail)
    monkeypatch.setattr("sys.argv", ["cpu_rivals", "--quick", "--workloads", "matmul"])
    assert cpu_rivals.main() == 1
    printed = capsys.readouterr().out
    assert "failed: matmul size 256 by torch: its process was killed" in printed
    assert "ratios to the fastest plain call are <= 1.05" in printed


def test_ratios_are_to_the_plain_call_with_the_lowest_median():
    comparison = times({"size": 1}, [2.0, 3.0, 2.0], {"a": [1.0, 9.0, 9.0], "b": [2.0, 2.0, 4.0]})
    assert (comparison.fastest_plain, comparison.ratios) == ("b", [1.0, 1.5, 0.5])
    assert comparison.passed


def reported(comparison):
    console = Console(file=io.StringIO(), width=160)
    return report([comparison], 2, console), console.file.getvalue()


@pytest.mark.parametrize(
    ("ours", "code", "verdict"),
    [
        (1.05, 0, "all 1 ratios to the fastest plain call are <= 1.05"),
        (1.06, 1, "slower than the fastest plain call by over 5%: matmul size 7"),
    ],
)
def test_verdict(ours, code, verdict):
    comparison = times({"size": 7}, [ours] * 3, {"torch @": [1.0] * 3, "NumPy @": [2.0] * 3})
    ended, printed = reported(comparison)
    assert ended == code
    assert printed.rstrip().endswith(verdict)
    assert f"{ours:.3f} ({ours:.2f} to {ours:.2f}, 3 rounds)" in printed
    assert "matmul: median milliseconds, up to 2 threads" in printed
    assert f"{0.3 / ours:.1f} ({0.2 / ours:.1f} to {0.4 / ours:.1f})" in printed


def test_what_was_reconstructed_is_called_so_and_nothing_measured_is_no_success():
    point = Point("gaussian_blur", {"size": 7})
    _, printed = reported(Comparison(point, [1.0] * 3, ["opencv"] * 3, {"a": [1.0] * 3}, [2.0]))
    assert "as published: reconstructed from kernel, sigma and border; the source" in printed
    code, printed = reported(Comparison(Point("matmul", {"size": 7}), skipped="too large"))
    assert code == 1
    assert "skipped: matmul size 7: too large" in printed
    assert "nothing was measured" in printed


def test_each_size_comes_once_and_in_float32():
    found = list(points(["smoke", "smoke"], ["matmul", "gaussian_blur"]))
    assert {point.dtype for point in found} == {"float32"}
    labels = [(point.workload, *point.parameters.values()) for point in found]
    assert len(set(labels)) == len(labels)
    assert labels[0][0] == "matmul"


@pytest.mark.parametrize("name", ["matmul", "image_convolution", "gaussian_blur"])
def test_the_published_approach_runs(name):
    assert seconds_as_published(name, small(name)) > 0
    assert seconds_as_published("edge_detection", {"size": 40, "batch": 1}) is None, "there is none"
