"""What becomes of a row when its workload behaves, and when it does not."""

import re
import time
from itertools import count, cycle
from unittest import mock

import pytest
import torch

from batchmark_job.measuring import entry, prepared, rows
from batchmark_job.measuring.candidate import CHANGES_INPUTS, Candidate
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.prepared import Prepared
from batchmark_job.measuring.rows import Row
from batchmark_job.result.document import Conditions, MeasurementStatus, Stopping
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.matmul import Matmul
from batchmark_job.workloads.own.files import read_workload
from tests.stand_ins.scripted_timer import Clock, ScriptedTimer
from tests.stand_ins.workers import bench_here
from tests.stand_ins.workloads import after, matmul_by, product_by, raising, slowed

LIMITS = RowLimits(samples=10, max_seconds=0.2)
PATIENT = RowLimits(samples=10, max_seconds=2.0)  # so that a busy machine ends no turn early


def measured(workload, limits=LIMITS, **bench):
    return Row(workload, {"size": 32}, "float32").measure(bench_here(limits, **bench))


def measured_by(*implementations, limits=LIMITS, **bench):
    return measured(matmul_by(*implementations), limits, **bench)


def measured_spoilt(spoil, limits=LIMITS, **bench):
    return measured_by(product_by("spoilt", spoil), limits=limits, **bench)


def plainly_measured(**bench):
    return measured_by(product_by("plain"), **bench)


def test_measured_row_is_complete():
    measurement = measured(WORKLOADS["matmul"])
    # On a loaded machine samples may drift; what was found is there all the same.
    assert measurement.status in {"measured", "unsettled"}, measurement.reason
    assert measurement.timer == "monotonic"
    assert measurement.warmup_calls
    assert measurement.cold_seconds
    assert measurement.phases.host_to_device_seconds is None
    assert measurement.flops == 2 * 32**3
    assert measurement.implementation.version
    assert measurement.implementation.threads
    assert measurement.stopping is not None
    for name in ("conditions_before", "conditions_during", "conditions_after", "correctness"):
        assert getattr(measurement, name) is not None, name
    chosen = [trial for trial in measurement.trials if trial.outcome == "chosen"]
    assert [trial.implementation for trial in chosen] == [measurement.implementation]


def test_a_choice_that_jumps_against_the_size_before_is_made_again(monkeypatch):
    """Two threads on one core took 8 ms for 0.1 ms, in every call of a trial."""
    clock = Clock(monkeypatch, reading=1e-5)
    stalls = iter([0.02] * 4)  # its cold call, and what it takes to give it up

    def stall(product):
        clock.now += next(stalls, 0.0)
        return product

    def rival(product):
        clock.now += 0.003
        return product

    bench = bench_here(LIMITS)
    before = matmul_by(product_by("stalled once"), product_by("steady"))
    Row(before, {"size": 32}, "float32").measure(bench)
    workload = matmul_by(product_by("stalled once", stall), product_by("steady", rival))
    measurement = Row(workload, {"size": 33}, "float32").measure(bench)
    assert measurement.implementation.name == "stalled once"


@pytest.mark.parametrize(
    ("right_calls", "reason", "samples"),
    [(0, "wrong result: ", 0), (1, "wrong result from the last call: ", 10)],
)
def test_a_wrong_result_fails_its_row_though_it_was_right_at_first(right_calls, reason, samples):
    measurement = measured_spoilt(after(right_calls, lambda product: product * 1.01))
    assert measurement.status == "failed"
    assert measurement.reason.startswith(f"{reason}relative error 0.01")
    assert measurement.reason.endswith(" exceeds the tolerance 1e-05 for float32")
    assert not measurement.correctness.passed
    assert len(measurement.samples_seconds) == samples


@pytest.mark.parametrize(
    ("spoil", "status", "reason"),
    [
        (lambda product: product * float("nan"), "failed", "wrong result: it contains nan"),
        (raising(LookupError("no kernel\nsecond line")), "failed", "LookupError: no kernel"),
        (raising(SystemExit(3)), "failed", "SystemExit: 3"),
        (raising(MemoryError("gone")), "skipped", "ran out of memory: gone"),
        (raising(torch.OutOfMemoryError("gone")), "skipped", "ran out of memory: gone"),
        (after(5, raising(LookupError("card fell off"))), "failed", "LookupError: card fell off"),
    ],
    ids=["nan", "exception", "exit", "memory", "CUDA's memory", "while sampling"],
)
def test_what_goes_wrong_ends_its_row_alone(spoil, status, reason):
    measurement = measured_spoilt(spoil)
    assert (measurement.status, measurement.reason) == (status, reason)
    outcome = "wrong" if "wrong" in reason else "failed"
    assert [trial.outcome for trial in measurement.trials] == [outcome]
    assert measurement.implementation is not None


def test_broken_candidate_says_more_than_one_out_of_memory():
    hungry = product_by("hungry", raising(MemoryError("gone")))
    broken = product_by("broken", raising(LookupError("no such kernel")))
    measurement = measured_by(hungry, broken)
    assert (measurement.status, measurement.reason) == ("failed", "LookupError: no such kernel")


def test_only_the_first_result_is_compared_where_calls_build_on_another():
    def row(factor):
        step = product_by("step", after(1, lambda product: product * factor))
        return measured(matmul_by(step, repeatable=False))

    assert row(1.01).status in {"measured", "unsettled"}
    diverged = row(float("inf"))
    wrong = "wrong result from the last call: it is not finite"
    assert (diverged.status, diverged.reason) == ("failed", wrong)


def scripted(durations, monkeypatch):
    """Let rows be timed by these durations."""
    timer = ScriptedTimer(durations, monkeypatch, reading=1e-6)
    monkeypatch.setattr(prepared, "timer_for", lambda device, evicted_bytes: timer)


def test_row_that_never_settles_says_so_and_keeps_its_samples(monkeypatch):
    scripted(cycle([0.1, 0.3]), monkeypatch)
    measurement = measured_spoilt(lambda product: product, PATIENT)
    said = "after 10 samples, the median could be anywhere from 100 ms to 300 ms"
    assert (measurement.status, measurement.reason) == ("unsettled", said)
    assert len(measurement.samples_seconds) == 10
    assert measurement.warmup_calls > 10 * prepared.RESTARTS


def test_row_much_slower_than_in_its_trial_says_so(monkeypatch):
    monkeypatch.setattr(Candidate, "trial_seconds", 1e-9)
    measurement = plainly_measured()
    assert measurement.status == "unsettled"
    assert measurement.reason.startswith("a call took 0.001 µs in the trial, but ")


def test_drifting_samples_are_warm_up_until_they_settle(monkeypatch):
    warm, drifting, settled = [2.0] * 10, [4.0] * 5 + [2.0] * 5, [2.0] * 10
    settling = [2.0]  # a call that nobody times
    scripted([*warm, *settling, *drifting, *settling, *settled], monkeypatch)
    measurement = plainly_measured(limits=RowLimits(samples=10, max_seconds=100.0))
    assert (measurement.status, measurement.reason) == ("measured", None)
    assert measurement.warmup_calls == len(warm) + len(drifting)
    assert measurement.unrecorded_calls == 0
    assert measurement.samples_seconds == tuple(settled)
    assert measurement.stopping == Stopping(criterion="precise", relative_half_width=0.0)


@pytest.mark.parametrize(
    ("long_wait", "status", "also"),
    [
        (2.0, "measured", ""),  # or what a busy machine does to it would count
        (0.0, "unsettled", r", and its threads spent \d+% of the time waiting for a CPU"),
    ],
)
def test_slow_row_ends_with_fewer_samples_and_says_so(monkeypatch, long_wait, status, also):
    monkeypatch.setattr(rows, "LONG_WAIT", long_wait)
    measurement = measured_spoilt(slowed(0.1), RowLimits(max_seconds=0.03), processes=3)
    assert measurement.status == status
    assert len(measurement.process_samples) == 1, "another would try one's patience"
    count = len(measurement.samples_seconds)
    assert count <= 3
    said = rf"only {count} samples, because 10 would have taken more than 0\.3 s{also}"
    assert re.fullmatch(said, measurement.reason)
    assert measurement.stopping.criterion == "max_seconds"


def test_cold_call_is_apart_and_inputs_are_not_timed():
    def slow_at_first(function):
        waits = iter([0.3])

        def slowly(*given):
            time.sleep(next(waits, 0.0))
            return function(*given)

        return slowly

    cold = product_by("cold", slow_at_first(lambda product: product))
    measurement = measured(matmul_by(cold, make_inputs=slow_at_first(Matmul.make_inputs)))
    assert measurement.cold_seconds >= 0.3
    assert min(measurement.samples_seconds) < 0.3


@pytest.mark.parametrize("asked", [{}, {"needs_gradients": True}])
def test_gradients_are_there_for_who_asks_for_them(asked):
    modes = set()

    def note(product):
        modes.add(torch.is_inference_mode_enabled())
        return product

    measured(matmul_by(product_by("step", note), **asked))
    assert modes == {not asked}


def test_conditions_and_throttled_samples_are_recorded():
    began = time.perf_counter()
    answers = {"at": Conditions(cpu_frequency_hz=1e9), "during": Conditions(cpu_frequency_hz=2e9)}
    answers |= {"now": None, "throttled": True}
    monitor = mock.Mock(**{f"{name}.return_value": value for name, value in answers.items()})
    measurement = plainly_measured(monitor=monitor, processes=2)
    spans = [call.args for call in (*monitor.during.mock_calls, *monitor.throttled.mock_calls)]
    assert all(began < start < end <= time.perf_counter() for start, end in spans)
    assert measurement.conditions_before == Conditions(cpu_frequency_hz=1e9)
    during = measurement.conditions_during
    assert during.cpu_frequency_hz == 2e9
    assert during.cpu_wait_share is None or 0 <= during.cpu_wait_share < 1
    count = len(measurement.samples_seconds)
    assert measurement.throttled_samples == tuple(range(count))
    assert measurement.energy_joules is None  # too short for NVML's counter


def test_energy_is_per_call(monkeypatch):
    monkeypatch.setattr(Prepared, "_joules", lambda self: 3 * time.perf_counter())
    measurement = measured_spoilt(slowed(0.15))
    assert measurement.energy_joules >= 3 * 0.15
    mean = sum(measurement.samples_seconds) / len(measurement.samples_seconds)
    assert measurement.energy_joules == pytest.approx(3 * mean, rel=0.2)


def test_processes_take_turns_and_look_back_once_each(monkeypatch):
    asked = []

    def noting(step):
        method = getattr(Prepared, step)

        def note(self, **how):
            asked.append((step, self))
            return method(self, **how)

        monkeypatch.setattr(Prepared, step, note)

    noting("measure")
    noting("look_back")
    measurement = plainly_measured(limits=PATIENT, processes=2, turns=3)
    assert measurement.turn_samples == (2,) * 6
    assert measurement.process_samples == (6, 6)
    first, second = dict.fromkeys(prepared for _, prepared in asked)
    assert [prepared for step, prepared in asked if step == "measure"] == [first, second] * 3
    assert [prepared for step, prepared in asked if step == "look_back"] == [first, second]


def test_a_process_that_memory_does_not_hold_while_others_measure_takes_one_turn(monkeypatch):
    monkeypatch.setattr(entry, "WAITING_SHARE", 0.0)
    measurement = plainly_measured(limits=PATIENT, processes=2, turns=3)
    assert measurement.turn_samples == measurement.process_samples == (5, 5)


def test_a_process_that_fails_after_others_fails_its_row(monkeypatch):
    measure = Prepared.measure

    def lost(self, **how):
        raise OSError("gone")

    def fails_later(self, **how):
        monkeypatch.setattr(Prepared, "measure", lost)
        return measure(self, **how)

    monkeypatch.setattr(Prepared, "measure", fails_later)
    measurement = plainly_measured(processes=3)
    assert (measurement.status, measurement.reason) == ("failed", "OSError: gone")
    assert measurement.process_samples == (4,)
    assert len(measurement.samples_seconds) == 4


def test_an_interrupted_row_keeps_the_turns_that_ended():
    workload = matmul_by(product_by("plain"))
    rows = [Row(workload, {"size": 32}, "float32") for _ in range(3)]
    bench = bench_here(LIMITS, processes=2)
    none, one, both = rows
    patient = RowLimits(samples=20, max_seconds=4.0, minimum_samples=20)
    one.take_turn(bench_here(patient, processes=2))
    both.measure(bench)
    none.unfinished = [1.0, 2.0]
    interrupted = [row.interrupt("SIGTERM", MeasurementStatus.INTERRUPTED) for row in rows]
    assert [row.status for row in interrupted[:2]] == ["interrupted", "measured"]
    assert interrupted[2] is both.measurement
    assert interrupted[0].reason == "SIGTERM; samples taken: 2"
    assert interrupted[0].samples_seconds == (1.0, 2.0)
    assert interrupted[1].reason == "SIGTERM after 1 of 2 turns"


def test_what_nobody_computes_is_skipped_with_the_reasons():
    measurement = measured_by()
    none = "matmul has no implementation for cpu"
    assert (measurement.status, measurement.reason) == ("skipped", none)
    row = Row(WORKLOADS["edge_detection"], {"size": 16, "batch": 1}, "tf32")
    measurement = row.measure(bench_here(LIMITS))
    assert measurement.status == "skipped"
    assert "opencv" in measurement.reason
    assert {trial.outcome for trial in measurement.trials} == {"refused"}


def test_calls_that_come_to_change_their_inputs_fail_their_row():
    class Careless(type(product_by("careless"))):
        def prepare_with(self, inputs, buffers):
            call, calls = super().prepare_with(inputs, buffers), count()
            return lambda: (call(), inputs[0].relu_() if next(calls) else None)[0]

    def centred(*arguments):
        return tuple(tensor - 0.5 for tensor in Matmul.make_inputs(*arguments))

    measurement = measured(matmul_by(Careless(), make_inputs=centred))
    assert (measurement.status, measurement.reason) == ("failed", CHANGES_INPUTS)


def test_formula_that_breaks_the_schema_fails_its_row_alone():
    measurement = measured(matmul_by(product_by("plain"), flops=lambda *_: -5))
    assert measurement.status == "failed"
    assert measurement.reason.startswith("ValidationError: ")
    assert measurement.flops is None


HUGE = '''"""Huge."""
AXES = {"size": (1,)}
def set_up(size, dtype): raise AssertionError("inputs are made")
def step(x): return x
def reference(x): return x
def elements_held(size): return 10**15
'''


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_row_declared_too_large_makes_no_inputs(device, tmp_path, request):
    if device == "cuda":
        request.getfixturevalue("cuda")
    (path := tmp_path / "huge.py").write_text(HUGE)
    bench = bench_here(LIMITS, device=device)
    measurement = Row(read_workload(path), {"size": 1}, "float32").measure(bench)
    assert measurement.status == "skipped", measurement.reason
    assert measurement.reason.startswith("needs 3725290.30 GiB of ")
