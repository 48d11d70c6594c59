"""Determines a row's candidates, how many input sets they get, and how much work the row involves.

This runs in a worker because it loads libraries and, for a user's own workload, runs their code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchmark_job.machine import memory
from batchmark_job.measuring.candidate import MOST_HELD, Candidate, Entry, by_implementation
from batchmark_job.measuring.problem import CACHES_FILLED, MOST_INPUT_SETS, Problem
from batchmark_job.measuring.processes import input_store
from batchmark_job.measuring.processes.input_store import MOST_SHARE
from batchmark_job.measuring.processes.workers import Tell
from batchmark_job.result.document import Implementation as ImplementationRecord

# Share of host memory that each of some thirty processes may hold between its turns. On CUDA none
# waits: each would keep a context of 0.4 GB.
WAITING_SHARE = 1 / 64


def enter(
    _tell: Tell,
    problem: Problem,
    thread_counts: Sequence[int],
    cache_bytes: int | None,
    store: str | None,
) -> Entry:
    """List every implementation with every thread count, refusing those that can't compute the row.

    Args:
        store: path at which to store the inputs, or None to store none.
    """
    candidates = find_candidates(problem, thread_counts)
    competing = [candidate for candidate in candidates if candidate.competes]
    sets = input_sets(problem, competing, cache_bytes) if competing else 0
    together = sets * _bytes_held(problem, _held_at_once(competing)) if sets else 0
    memory_bytes = memory.host_memory_bytes()
    input_bytes = problem.input_bytes() if sets else 0
    for candidate in competing if problem.device == "cpu" else ():
        # The inputs as made and as arranged, and what one call allocates.
        waiting = 2 * sets * input_bytes + _bytes_held(problem, [candidate])
        candidate.can_wait = waiting <= WAITING_SHARE * memory_bytes
    stored = False
    if store and sets and sets * input_bytes <= MOST_SHARE * memory_bytes:
        stored = input_store.save(store, [problem.inputs(index) for index in range(sets)])
    workload = problem.workload
    return Entry(
        candidates,
        sets,
        input_bytes,
        memory.has_room(together, problem.device) if sets else True,
        stored,
        workload.flops(problem.parameters),
        workload.items(problem.parameters),
        workload.bytes_moved(problem.parameters, problem.dtype) if sets else None,
    )


def find_candidates(problem: Problem, thread_counts: Sequence[int]) -> list[Candidate]:
    """List candidates that suit the row's device and dtype; if none do, list all as refused."""
    on_cpu = problem.device == "cpu"
    found = []
    every = list(enumerate(problem.implementations()))
    made_for_it = [one for one in every if one[1].is_for(problem.device, problem.dtype)]
    for index, implementation in made_for_it or every:
        counts: Sequence[int | None] = thread_counts if on_cpu else [None]
        if on_cpu and implementation.single_threaded:
            counts = [1]
        refusal = implementation.refusal(problem.device, problem.dtype)
        if refusal is None and problem.row_seconds < implementation.least_row_seconds:
            refusal = (
                f"{implementation.name} starts slowly, so it is tried only in rows of at least "
                f"{implementation.least_row_seconds:g} s, but --max-seconds is "
                f"{problem.row_seconds:g}"
            )
        too_large = None
        if refusal is None:
            too_large = memory.shortage(
                problem.workload, implementation, problem.parameters, problem.dtype, problem.device
            )
        reason = refusal or too_large
        for threads in counts[:1] if reason else counts:
            version = "unknown" if reason else implementation.version()
            record = ImplementationRecord(
                name=implementation.name, version=version, threads=threads
            )
            candidate = Candidate(index, record, implementation.plain().name)
            if reason:
                candidate.drop("refused", reason, out_of_memory=too_large is not None)
            found.append(candidate)
    return found


def input_sets(problem: Problem, competing: Iterable[Candidate], cache_bytes: int | None) -> int:
    """Return how many input sets it takes to fill the last-level cache CACHES_FILLED times.

    This is at most MOST_INPUT_SETS, and 1 if a single set is enough, the cache size is unknown or
    memory is short.
    """
    set_bytes = problem.input_bytes()
    wanted = min(MOST_INPUT_SETS, CACHES_FILLED * (cache_bytes or 0) // max(1, set_bytes) + 1)
    # Based on the candidate that needs the most memory per input set.
    most = max((_bytes_held(problem, [candidate]) for candidate in competing), default=0)
    return wanted if memory.has_room(wanted * most, problem.device) else 1


def _held_at_once(competing: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates held at once: MOST_HELD per implementation plus the one being tried."""
    return [each for rungs in by_implementation(competing) for each in rungs[: MOST_HELD + 1]]


def _bytes_held(problem: Problem, candidates: Iterable[Candidate]) -> int:
    """Return the memory that these candidates need per input set, each in its own process."""
    implementations = problem.implementations()
    return sum(
        problem.input_bytes()
        + implementations[candidate.index].working_set_bytes(problem.parameters, problem.dtype)
        for candidate in candidates
    )
