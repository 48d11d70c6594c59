"""The benchmark of CPU implementations: its plain calls compute the same, its verdict is right."""

import io
import itertools
from collections.abc import Callable

import pytest
import torch
from rich.console import Console

from batchmark_job.measure import Bench, Row, bench_for
from batchmark_job.result import Correctness, Implementation, Measurement, MeasurementStatus
from batchmark_job.suites import Limits, Point
from batchmark_job.trial import Problem
from batchmark_job.workloads import WORKLOADS
from benchmarks import cpu_rivals
from benchmarks.cpu_rivals import (
    Comparison,
    ComparisonError,
    compare,
    points,
    report,
    time_plain,
)
from benchmarks.plain_calls import PLAIN_CALLS, PlainCall, as_tensor, seconds_as_published

SIZE = {"sequence": 24, "batch": 2, "size": 40}
CASES = [
    pytest.param(name, plain, id=f"{name}-{plain.name}")
    for name, calls in PLAIN_CALLS.items()
    if not name.startswith("resnet50")  # too slow here; the benchmark checks every call itself
    for plain in calls
]
QUICK = Limits(max_seconds=0.01)


def small(name: str) -> dict[str, int]:
    return {axis.name: SIZE.get(axis.name, axis.default or 1) for axis in WORKLOADS[name].axes}


def times(
    parameters: dict[str, int], ours: list[float], plain: dict[str, list[float]]
) -> Comparison:
    point = Point("matmul", parameters)
    return Comparison(point, ours, ["numpy"] * len(ours), plain, as_published=[0.4, 0.2, 0.3])


@pytest.mark.parametrize(("name", "plain"), CASES)
def test_plain_calls_are_correct(name: str, plain: PlainCall) -> None:
    problem = Problem(WORKLOADS[name], small(name), "float32", "cpu")
    with torch.inference_mode(not problem.workload.needs_gradients):
        output = as_tensor(plain.prepare(problem.inputs(0))())
    correctness, wrong = problem.check(problem.inputs(0), output)
    assert wrong is None
    assert correctness is not None


def test_a_wrong_plain_call_is_found_out() -> None:
    problem = Problem(WORKLOADS["matmul"], {"size": 40}, "float32", "cpu")
    wrong = PlainCall("transposed", lambda inputs: lambda: (inputs[0] @ inputs[1]).T)
    with pytest.raises(ComparisonError, match=r"^matmul by transposed: relative error"):
        time_plain(wrong, problem, 1, QUICK, check=True)


def test_one_size_is_compared_round_by_round() -> None:
    comparison = compare(Point("matmul", {"size": 40}), bench_for("cpu", QUICK), 3, 60.0)
    assert comparison.skipped is None
    assert set(comparison.plain) == {"torch @", "NumPy @", "SciPy gemm"}
    rounds = len(comparison.ours)
    assert rounds >= 3
    series = (comparison.implementations, comparison.as_published, *comparison.plain.values())
    assert all(len(one) == rounds for one in series)
    assert min(comparison.as_published) > 0


def ending(status: MeasurementStatus, seconds: float) -> Callable[[Row, Bench], Measurement]:
    def measure(row: Row, _: Bench) -> Measurement:
        found = Implementation(name="numpy", version="1")
        right = Correctness(relative_error=0, tolerance=1)
        row.found.update(implementation=found, input_sets=1, cold_seconds=1.0, correctness=right)
        row.samples.append(seconds)
        return row.finish(status, "drifting")

    return measure


UNSETTLED = ending(MeasurementStatus.UNSETTLED, 1.0)
SETTLED = ending(MeasurementStatus.MEASURED, 2.0)


def test_a_round_that_does_not_settle_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([UNSETTLED, SETTLED, SETTLED, UNSETTLED, SETTLED])

    def measure(row: Row, bench: Bench) -> Measurement:
        return next(turns)(row, bench)

    monkeypatch.setattr(cpu_rivals, "measure", measure)
    comparison = compare(Point("matmul", {"size": 40}), bench_for("cpu", QUICK), 3, 60.0)
    assert comparison.ours == [2.0] * 3
    assert len(comparison.ratios) == 3
    console = Console(file=io.StringIO(), width=200)
    report([comparison], 2, console)
    assert "2 of 5 rounds unsettled" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("plain", "rounds"), [([1.0, 4.0], 12), ([1.0, 1.5], 3)])
def test_rounds_that_disagree_are_followed_by_more(
    monkeypatch: pytest.MonkeyPatch, plain: list[float], rounds: int
) -> None:
    turns = itertools.cycle(plain)
    monkeypatch.setattr(cpu_rivals, "measure", SETTLED)
    monkeypatch.setattr(cpu_rivals, "PLAIN_CALLS", {"matmul": PLAIN_CALLS["matmul"][:1]})
    monkeypatch.setattr(cpu_rivals, "time_plain", lambda *_, **__: next(turns))
    comparison = compare(Point("matmul", {"size": 40}), bench_for("cpu", QUICK), 3, 60.0)
    assert len(comparison.ratios) == rounds


def test_what_never_settles_is_undecided_and_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_rivals, "measure", UNSETTLED)
    never = compare(Point("matmul", {"size": 40}), bench_for("cpu", QUICK), 3, 60.0)
    assert (never.ours, never.unsettled, never.passed) == ([], 3, False)
    good = times({"size": 7}, [1.0] * 3, {"torch @": [1.0] * 3})
    console = Console(file=io.StringIO(), width=160)
    assert report([good, never], 2, console) == 1
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "undecided: matmul size 40: 3 of 3 rounds unsettled" in printed
    assert "all " not in printed


def test_our_own_wrong_result_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = WORKLOADS["matmul"]
    monkeypatch.setattr(workload, "relative_error", lambda *_: 1.0)
    with pytest.raises(ComparisonError, match=r"^matmul size 40 as we measure it: wrong result"):
        compare(Point("matmul", {"size": 40}), bench_for("cpu", QUICK), 3, 60.0)


def test_a_size_that_memory_does_not_hold_is_skipped() -> None:
    comparison = compare(Point("matmul", {"size": 200_000}), bench_for("cpu", QUICK), 3, 60.0)
    assert comparison.skipped == "does not fit into memory twice"


def test_ratios_are_to_the_plain_call_with_the_lowest_median() -> None:
    comparison = times({"size": 1}, [2.0, 3.0, 2.0], {"a": [1.0, 9.0, 9.0], "b": [2.0, 2.0, 4.0]})
    assert comparison.fastest_plain == "b"
    assert comparison.ratios == [1.0, 1.5, 0.5]
    assert comparison.passed


@pytest.mark.parametrize(
    ("ours", "code", "verdict"),
    [
        (1.05, 0, "all 1 ratios to the fastest plain call are <= 1.05"),
        (1.06, 1, "slower than 1.05 x plain: matmul size 7"),
    ],
)
def test_verdict(ours: float, code: int, verdict: str) -> None:
    console = Console(file=io.StringIO(), width=160)
    comparison = times({"size": 7}, [ours] * 3, {"torch @": [1.0] * 3, "NumPy @": [2.0] * 3})
    assert report([comparison], 2, console) == code
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert printed.rstrip().endswith(verdict)
    assert f"{ours:.3f} ({ours:.2f} to {ours:.2f}, 3 rounds)" in printed
    assert "matmul: median milliseconds, 2 threads" in printed
    assert f"{0.3 / ours:.1f} ({0.2 / ours:.1f} to {0.4 / ours:.1f})" in printed


def test_what_was_reconstructed_is_called_so() -> None:
    console = Console(file=io.StringIO(), width=160)
    point = Point("gaussian_blur", {"size": 7})
    report([Comparison(point, [1.0] * 3, ["opencv"] * 3, {"a": [1.0] * 3}, [2.0])], 2, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "as published: reconstructed from kernel, sigma and border; the source" in printed


def test_nothing_measured_is_no_success() -> None:
    console = Console(file=io.StringIO(), width=160)
    skipped = Comparison(Point("matmul", {"size": 7}), skipped="too large")
    assert report([skipped], 2, console) == 1
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "skipped: matmul size 7: too large" in printed
    assert "nothing was measured" in printed


def test_each_size_comes_once_and_in_float32() -> None:
    found = list(points(["smoke", "smoke"], ["matmul", "gaussian_blur"]))
    assert {point.dtype for point in found} == {"float32"}
    labels = [(point.workload, *point.parameters.values()) for point in found]
    assert len(set(labels)) == len(labels)
    assert labels[0][0] == "matmul"


@pytest.mark.parametrize("name", ["matmul", "image_convolution", "gaussian_blur"])
def test_the_published_approach_runs(name: str) -> None:
    seconds = seconds_as_published(name, small(name))
    assert seconds is not None
    assert seconds > 0


def test_what_was_not_published_has_no_time() -> None:
    assert seconds_as_published("edge_detection", {"size": 40, "batch": 1}) is None
