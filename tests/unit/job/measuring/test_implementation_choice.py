"""Which rival is chosen, on which inputs, with how many threads, and what the others leave."""

from __future__ import annotations

import platform
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import psutil
import pytest
import torch

from batchmark_job import environment, memory, threads, trial
from batchmark_job.sampling import MonotonicTimer
from batchmark_job.trial import Contestant, Problem, contestants, hold_trial, input_sets
from batchmark_job.workloads import WORKLOADS
from tests.unit.job.stand_in_workloads import (
    after,
    matmul_by,
    raising,
    rival_called,
    slowed,
)

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Implementation, Tensors

SIZE = {"size": 32}
SET_BYTES = 2 * 32 * 32 * 4


def problem_for(*rivals: Implementation, dtype: str = "float32") -> Problem:
    return Problem(matmul_by(*rivals), SIZE, dtype, "cpu")


def tried(
    *rivals: Implementation, sets: int = 1, seconds: float = 0.05, counts: tuple[int, ...] = (1,)
) -> tuple[Contestant | None, list[Contestant]]:
    problem = problem_for(*rivals)
    entered = contestants(problem, counts)
    timer = MonotonicTimer("cpu")
    return hold_trial(problem, entered, sets, timer, seconds, lambda mark: None), entered


@pytest.fixture(params=["all together", "one after the other"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for all rivals at once, or for one."""
    if request.param == "one after the other":
        monkeypatch.setattr(memory, "has_room", lambda needed_bytes, device: False)


@pytest.mark.usefixtures("room")
def test_fastest_is_chosen_wherever_it_stands() -> None:
    chosen, entered = tried(
        rival_called("slow", slowed(0.02)), rival_called("fast"), rival_called("slow", slowed(0.02))
    )
    assert chosen is entered[1]
    assert [rival.outcome for rival in entered] == ["slower", "chosen", "slower"]
    assert all(rival.trial().median_seconds for rival in entered)
    assert len(chosen.seconds) >= trial.FEWEST_CALLS
    assert chosen.rotation is not None
    assert [rival.rotation for rival in (entered[0], entered[2])] == [None, None]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
@pytest.mark.parametrize("room", ["one after the other"], indirect=True)
def test_where_memory_is_scarce_a_rival_finds_none_that_its_predecessor_freed(room: None) -> None:
    size = 128 * 2**20
    process = psutil.Process()
    resident = []

    def large(product: torch.Tensor) -> torch.Tensor:
        np.ones(size, np.uint8)
        return product

    def small(product: torch.Tensor) -> torch.Tensor:
        resident.append(process.memory_info().rss)
        return product

    memory.keep_freed_memory()
    memory.release("cpu")
    before = process.memory_info().rss
    tried(rival_called("large", large), rival_called("small", small))
    assert resident[0] - before < size / 2


@pytest.mark.usefixtures("room")
def test_hopeless_rival_is_called_only_once_more() -> None:
    calls = count()

    def very_slow(product: torch.Tensor) -> torch.Tensor:
        next(calls)
        time.sleep(0.4)
        return product

    chosen, entered = tried(rival_called("fast"), rival_called("slow", very_slow), seconds=3.0)
    assert chosen is entered[0]
    assert next(calls) == 2  # its cold call, and one to be sure
    assert entered[1].trial().calls == 1


def test_one_stalled_call_costs_no_rival_the_race() -> None:
    """A thread that waits for the scheduler makes a call of microseconds last 24 ms at times."""

    def contestant(*seconds: float, turns: int = 1) -> trial.Contestant:
        return trial.Contestant(rival_called("a"), 1, seconds=list(seconds), turns=turns)

    leader = contestant(0.0002, 0.0002, 0.0002)
    assert not trial._hopeless(contestant(0.024), leader)
    assert trial._hopeless(contestant(0.024, 0.024, 0.024, turns=3), leader)
    assert trial._hopeless(contestant(0.4), leader)
    # Two threads on one core slow down all calls of a turn.
    assert not trial._hopeless(contestant(*[0.0007] * 14), leader)


@pytest.mark.usefixtures("room")
def test_wrong_and_broken_rivals_are_not_chosen_however_fast() -> None:
    chosen, entered = tried(
        rival_called("wrong", lambda product: product * 2),
        rival_called("broken", raising(LookupError("no such kernel"))),
        rival_called("breaks later", after(1, raising(MemoryError("gone")))),
        rival_called("right", slowed(0.005)),
    )
    assert chosen is entered[3]
    wrong, broken, later, _ = (rival.trial() for rival in entered)
    assert wrong.outcome == "wrong"
    assert wrong.reason == "relative error 1, float32 allows 1e-05"
    assert (broken.outcome, broken.reason) == ("failed", "LookupError: no such kernel")
    assert (later.outcome, later.reason) == ("failed", "out of memory when tried: gone")


@pytest.mark.usefixtures("room")
def test_nobody_is_chosen_where_all_are_wrong() -> None:
    chosen, entered = tried(rival_called("wrong", lambda product: product * float("inf")))
    assert chosen is None
    assert entered[0].trial().correctness is None
    assert entered[0].reason == "it contains inf"


@pytest.mark.usefixtures("room")
def test_a_lone_rival_has_no_trial() -> None:
    chosen, _ = tried(rival_called("only"))
    assert chosen is not None
    assert chosen.trial().outcome == "chosen"
    assert (chosen.trial().calls, chosen.trial().median_seconds) == (0, None)
    assert chosen.cold_seconds


@pytest.mark.usefixtures("room")
def test_every_input_set_is_another_and_the_same_for_all() -> None:
    seen: dict[str, list[Tensors]] = {"a": [], "b": []}

    def rival(name: str) -> Implementation:
        plain = rival_called(name)

        class Watched(type(plain)):  # type: ignore[misc]
            def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Any:
                seen[name].append(inputs)
                return super().prepare_with(inputs, buffers)

        return Watched()

    chosen, _ = tried(rival("a"), rival("b"), sets=3)
    assert chosen is not None
    first, second = seen["a"][:3], seen["b"][:3]
    assert len({float(left.sum()) for left, _ in first}) == 3
    for ours, theirs in zip(first, second, strict=True):
        assert torch.equal(ours[0], theirs[0])


def test_refused_rivals_are_recorded_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    (entered,) = contestants(problem_for(rival_called("plain"), dtype="int8"), (2, 1))
    assert entered.trial().outcome == "refused"
    assert entered.reason is not None
    assert entered.reason.startswith("plain has no int8")
    assert not entered.out_of_memory
    monkeypatch.setattr(memory, "available_host_bytes", lambda: 1000)
    (too_large,) = contestants(problem_for(rival_called("plain")), (1,))
    assert too_large.out_of_memory
    assert too_large.reason is not None
    assert too_large.reason.startswith("needs 0.00 GiB of host memory")


def test_threads_are_rivals_of_their_own_and_share_the_cold_call() -> None:
    seen: list[int] = []

    def note(product: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return product

    before = torch.get_num_threads()
    try:
        chosen, entered = tried(rival_called("plain", note), counts=(2, 1))
    finally:
        threads.give_threads(before)
    assert chosen is not None
    assert [rival.threads for rival in entered] == [2, 1]
    assert set(seen) == {1, 2}
    assert chosen.cold_seconds == entered[0].cold_seconds


def test_a_rival_that_uses_one_thread_anyhow_is_tried_once() -> None:
    class Alone(type(rival_called("alone"))):  # type: ignore[misc]
        single_threaded = True

    entered = contestants(problem_for(Alone(), rival_called("shared")), (4, 2))
    assert [(rival.rival.name, rival.threads) for rival in entered] == [
        ("alone", 1),
        ("shared", 4),
        ("shared", 2),
    ]


@pytest.mark.usefixtures("room")
def test_calls_that_change_their_inputs_are_out_though_their_result_is_right() -> None:
    """Later calls would be timed on sorted keys; so would the rivals that share them."""

    class Sort(type(WORKLOADS["sort"])):  # type: ignore[misc]
        name = "sort"

    class InPlace(type(Sort.implementations[0])):  # type: ignore[misc]
        name = "in place"

        def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Any:
            keys = inputs[0].numpy()

            def call() -> torch.Tensor:
                keys.sort()
                return inputs[0]

            return call

    workload = Sort()
    workload.implementations = (InPlace(), InPlace(), *Sort.implementations)
    problem = Problem(workload, {"size": 3_000_000}, "float32", "cpu")
    entered = contestants(problem, (1,))
    chosen = hold_trial(problem, entered, 1, MonotonicTimer("cpu"), 0.01, lambda mark: None)
    assert [(rival.outcome, rival.reason) for rival in entered[:2]] == [
        ("failed", trial.CHANGES_INPUTS)
    ] * 2
    assert chosen in entered[2:]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB"),
        torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be ..."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to ..."),
        cv2.error("OpenCV(5.0.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate"),
        MemoryError(),
    ],
)
def test_out_of_memory_is_known_in_every_library_s_words(error: Exception) -> None:
    assert trial.is_out_of_memory(error)
    assert trial.describe_error(error).startswith("out of memory when tried: ")


def test_other_errors_are_not_out_of_memory() -> None:
    error = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    assert not trial.is_out_of_memory(error)


def test_each_check_looks_at_another_part_of_the_output() -> None:
    drawn: list[int] = []

    class Watched(type(matmul_by())):  # type: ignore[misc]
        def relative_error(self, inputs: Any, output: Any, rng: np.random.Generator) -> float:
            drawn.append(int(rng.integers(10**9)))
            return 0.0

    problem = Problem(Watched(), SIZE, "float32", "cpu")
    for draw in ((0,), (0,), (1,), (0, 1)):
        problem.check((), torch.zeros(1), *draw)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_physical_cores_are_tried_only_where_threads_share_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "usable_cores", lambda: 4)
    assert threads.worth_trying(8) == (8, 4)
    assert threads.worth_trying(4) == (4,)
    assert threads.worth_trying(2) == (2,)


def test_all_pools_get_the_threads() -> None:
    import cv2
    import threadpoolctl

    before = torch.get_num_threads()
    try:
        threads.give_threads(1)
        pools = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        assert (torch.get_num_threads(), cv2.getNumThreads(), pools) == (1, 1, {1})
    finally:
        threads.give_threads(before)


@pytest.mark.parametrize(
    ("cache_bytes", "sets"),
    [
        (None, 1),
        (SET_BYTES // 4, 1),
        (SET_BYTES, 3),
        (10 * SET_BYTES, 21),
        (10**9, trial.MOST_INPUT_SETS),
    ],
)
def test_input_sets_fill_the_cache_twice(cache_bytes: int | None, sets: int) -> None:
    problem = problem_for(rival_called("plain"))
    entered = contestants(problem, (1,))
    assert input_sets(problem, entered, cache_bytes) == sets
    if 1 < sets < trial.MOST_INPUT_SETS:
        assert cache_bytes is not None
        assert sets * SET_BYTES > 2 * cache_bytes


def test_one_input_set_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_for(rival_called("plain"))
    entered = contestants(problem, (1,))
    monkeypatch.setattr(memory, "available_host_bytes", lambda: 10 * SET_BYTES)
    assert input_sets(problem, entered, 100 * SET_BYTES) == 1
