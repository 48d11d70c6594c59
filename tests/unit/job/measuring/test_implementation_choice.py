"""Which implementation is chosen, on which inputs and threads, and what becomes of the others."""

from itertools import count
from unittest import mock

import cv2
import pytest
import threadpoolctl
import torch

from batchmark_job.machine import fingerprint, memory, threads
from batchmark_job.measuring import implementation_choice
from batchmark_job.measuring.candidate import CHANGES_INPUTS, FEWEST_CALLS, Candidate
from batchmark_job.measuring.entry import enter, find_candidates, input_sets
from batchmark_job.measuring.implementation_choice import choose_fastest
from batchmark_job.measuring.problem import MOST_INPUT_SETS, Problem
from batchmark_job.measuring.processes.workers import ignore
from batchmark_job.result.document import Implementation
from tests.stand_ins.workers import WorkersHere
from tests.stand_ins.workloads import after, matmul_by, product_by, raising, slowed

SIZE = {"size": 32}
SET_BYTES = 2 * 32 * 32 * 4


def problem_for(*implementations, dtype="float32"):
    return Problem(matmul_by(*implementations), SIZE, dtype, "cpu")


def tried(*implementations, counts=(1,), seconds=0.05, cache_bytes=None):
    problem = problem_for(*implementations)
    entered = enter(ignore, problem, counts, cache_bytes, None)
    chosen, _ = choose_fastest(problem, entered, seconds, WorkersHere(), ignore)
    return chosen, entered.candidates


@pytest.fixture(params=["all together", "one after the other"])
def room(request, monkeypatch):
    """Memory for all implementations at once, or for one."""
    if request.param == "one after the other":
        monkeypatch.setattr(memory, "has_room", lambda needed_bytes, device: False)


@pytest.mark.usefixtures("room")
def test_fastest_is_chosen_wherever_it_stands():
    slow = [product_by("slow", slowed(0.02)) for _ in range(2)]
    chosen, entered = tried(slow[0], product_by("fast"), slow[1])
    assert chosen is entered[1]
    assert [candidate.outcome for candidate in entered] == ["slower", "chosen", "slower"]
    assert all(candidate.trial_record().median_seconds for candidate in entered)
    assert len(chosen.seconds) >= FEWEST_CALLS


NOISE = implementation_choice.LONGEST_NOISE_SECONDS


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize(
    ("noise", "call_seconds", "trial_seconds", "expected"),
    [
        (NOISE, 0.3, 3.0, 3),
        (NOISE, 0.3, 0.1, 1),  # for the rest of the trial
        (0.02, 0.03, 0.01, 1),  # a warm call is enough where it takes longer than noise does
    ],
)
def test_hopeless_candidate_is_called_three_times_at_most(
    monkeypatch, noise, call_seconds, trial_seconds, expected
):
    monkeypatch.setattr(implementation_choice, "LONGEST_NOISE_SECONDS", noise)
    calls = count()

    def slow(product):
        next(calls)
        return slowed(call_seconds)(product)

    rivals = product_by("fast"), product_by("slow", slow)
    chosen, entered = tried(*rivals, seconds=trial_seconds)
    assert chosen is entered[0]
    assert next(calls) == 1 + expected  # and its cold call
    record = entered[1].trial_record()
    assert (record.calls, record.outcome) == (expected, "slower")
    assert record.median_seconds >= call_seconds


def runner_up(*seconds, turns=1):
    record = Implementation(name="a", version="1", threads=1)
    return Candidate(0, record, "a", seconds=list(seconds), turns=turns)


@pytest.mark.parametrize(
    ("seconds", "turns", "given_up"),
    [
        # An H200's host made a call of 2 ms last 53 ms, and one of 0.1 ms last 8 ms, twice.
        ([0.053], 1, False),
        ([0.024, 0.024], 2, False),
        ([0.024, 0.024, 0.024], 2, True),
        ([0.053, 0.053, 0.0009], 2, False),
        ([0.4], 1, True),
        ([], 0, False),
        # Two threads on one core slow down all calls of a turn.
        ([0.0007] * 14, 1, False),
        ([0.0007] * 14, 3, True),
    ],
)
def test_stalled_calls_cost_nobody_the_race(seconds, turns, given_up):
    leader = runner_up(0.0002, 0.0002, 0.0002)
    runner = runner_up(*seconds, turns=turns)
    assert implementation_choice.hopeless(runner, leader, patience=0.2) == given_up


@pytest.mark.usefixtures("room")
def test_wrong_and_broken_candidates_are_not_chosen_however_fast():
    chosen, entered = tried(
        product_by("wrong", lambda product: product * 2),
        product_by("right", slowed(0.005)),
        product_by("broken", raising(LookupError("no such kernel"))),
        product_by("breaks later", after(1, raising(MemoryError("gone")))),
    )
    assert chosen is entered[1]
    wrong, _, broken, later = (candidate.trial_record() for candidate in entered)
    assert wrong.outcome == "wrong"
    assert wrong.reason == "relative error 1 exceeds the tolerance 1e-05 for float32"
    assert wrong.correctness.relative_error == pytest.approx(1)
    assert (broken.outcome, broken.reason) == ("failed", "LookupError: no such kernel")
    assert (later.outcome, later.reason) == ("failed", "ran out of memory: gone")


@pytest.mark.usefixtures("room")
def test_a_lone_candidate_has_no_trial_and_nobody_is_chosen_where_all_are_wrong():
    chosen, _ = tried(product_by("only"))
    assert chosen.trial_record().outcome == "chosen"
    assert (chosen.trial_record().calls, chosen.trial_record().median_seconds) == (0, None)
    chosen, entered = tried(
        *(product_by("wrong", lambda product: product * float("inf")) for _ in range(2))
    )
    assert chosen is None
    assert entered[0].trial_record().correctness is None
    assert entered[0].reason == "it contains inf"


def test_every_input_set_is_another_and_the_same_for_all():
    rivals = [product_by(name) for name in "ab"]
    for rival in rivals:
        rival.prepare_with = mock.Mock(wraps=rival.prepare_with)
    chosen, _ = tried(*rivals, cache_bytes=SET_BYTES)
    assert chosen is not None
    first, second = (
        [call.args[0][0] for call in rival.prepare_with.mock_calls[:3]] for rival in rivals
    )
    assert len({float(left.sum()) for left in first}) == 3
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))


def test_refused_candidates_are_recorded_with_the_reason(monkeypatch):
    (entered,) = find_candidates(problem_for(product_by("plain"), dtype="int8"), (2, 1))
    assert entered.trial_record().outcome == "refused"
    assert entered.reason.startswith("plain does not support int8")
    assert not entered.out_of_memory
    monkeypatch.setattr(memory, "available_host_bytes", lambda: 1000)
    (too_large,) = find_candidates(problem_for(product_by("plain")), (1,))
    assert too_large.out_of_memory
    assert too_large.reason.startswith("needs 0.00 GiB of host memory")


@pytest.mark.parametrize("room", ["one after the other"], indirect=True)
def test_numbers_of_threads_compete(room):
    seen = []

    def note(product):
        seen.append(torch.get_num_threads())
        return product

    chosen, entered = tried(product_by("plain", note), counts=(2, 1))
    assert [candidate.threads for candidate in entered] == [2, 1]
    assert set(seen) == {1, 2}
    assert chosen.cold_seconds


def test_what_uses_one_thread_anyhow_is_tried_once_and_another_dtype_s_not_at_all():
    alone, other = product_by("alone"), product_by("other")
    alone.single_threaded = True
    other.dtypes = ("float16",)
    entered = find_candidates(problem_for(alone, product_by("shared"), other), (4, 2))
    assert [(candidate.name, candidate.threads) for candidate in entered] == [
        ("alone", 1),
        ("shared", 4),
        ("shared", 2),
    ]


@pytest.mark.usefixtures("room")
def test_calls_that_change_their_inputs_are_out_though_their_result_is_right():
    """As a sort in place would time later calls, and those of its rivals, on sorted keys."""

    class Careless(type(product_by("careless"))):
        def prepare_with(self, inputs, buffers):
            call = super().prepare_with(inputs, buffers)
            return lambda: (inputs[0].neg_(), call())[1]

    chosen, entered = tried(Careless(), Careless(), product_by("plain"))
    changing = [(candidate.outcome, candidate.reason) for candidate in entered[:2]]
    assert changing == [("failed", CHANGES_INPUTS)] * 2
    assert chosen is entered[2]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB"),
        torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be ..."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to ..."),
        cv2.error("OpenCV(5.0.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate"),
        MemoryError(),
    ],
)
def test_out_of_memory_is_known_in_every_library_s_words(error):
    assert memory.is_out_of_memory(error)
    assert memory.describe_error(error).startswith("ran out of memory: ")
    other = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    assert not memory.is_out_of_memory(other)


def test_each_check_looks_at_another_part_of_the_output():
    drawn = []

    def draw(workload, inputs, output, rng):
        drawn.append(int(rng.integers(10**9)))
        return 0.0

    problem = Problem(matmul_by(relative_error=draw), SIZE, "float32", "cpu")
    for place in ((0,), (0,), (1,), (0, 1)):
        problem.check((), torch.zeros(1), *place)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


@pytest.mark.parametrize(
    ("usable", "cores", "counts"),
    [
        (1, 1, (1,)),
        (2, 2, (2, 1)),
        (6, 3, (6, 3, 1)),
        (16, 16, (16, 8, 4, 2, 1)),
        (192, 96, (192, 96, 48, 24, 12, 6, 3, 1)),
        (4, 8, (4, 2, 1)),  # the job was given fewer
    ],
)
def test_all_threads_one_per_core_and_halves_are_tried(monkeypatch, usable, cores, counts):
    monkeypatch.setattr(fingerprint, "usable_cores", lambda: cores)
    assert threads.thread_counts_to_try(usable) == counts


def test_all_pools_get_the_threads():
    threads.set_threads(1)
    pools = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    assert (torch.get_num_threads(), cv2.getNumThreads(), pools) == (1, 1, {1})


@pytest.mark.parametrize(
    ("cache_bytes", "sets"),
    [
        (None, 1),
        (SET_BYTES // 4, 1),
        (SET_BYTES, 3),
        (10 * SET_BYTES, 21),
        (10**9, MOST_INPUT_SETS),
    ],
)
def test_input_sets_fill_the_cache_twice_where_memory_holds_them(monkeypatch, cache_bytes, sets):
    problem = problem_for(product_by("plain"))
    entered = find_candidates(problem, (1,))
    assert input_sets(problem, entered, cache_bytes) == sets
    monkeypatch.setattr(memory, "available_host_bytes", lambda: 10 * SET_BYTES)
    assert input_sets(problem, entered, 100 * SET_BYTES) == 1
