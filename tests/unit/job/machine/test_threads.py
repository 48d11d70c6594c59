"""Where this process' threads run."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from batchmark_job.machine import threads
from batchmark_job.machine.conditions import thread_times

SEVERAL_CORES = pytest.mark.skipif(
    len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two cores"
)


@pytest.fixture
def idle_threads():
    """Threads that wait for the test's end."""
    done = threading.Event()
    started = [threading.Thread(target=done.wait, daemon=True) for _ in range(3)]
    for thread in started:
        thread.start()
    yield [thread.native_id for thread in started]
    done.set()
    for thread in started:
        thread.join()


@SEVERAL_CORES
def test_threads_are_apart_and_free_again_after_an_error_too(idle_threads):
    allowed = os.sched_getaffinity(0)
    first, second, third = idle_threads
    os.sched_setaffinity(third, {min(allowed)})  # somebody's decision
    for failing in (False, True):
        with suppress(LookupError), threads.pinned_to_cores([first, second, third]):
            places = [os.sched_getaffinity(thread) for thread in (first, second)]
            assert [len(place) for place in places] == [1, 1]
            assert places[0] != places[1]
            if failing:
                raise LookupError
        assert [os.sched_getaffinity(thread) for thread in (first, second)] == [allowed] * 2
        assert os.sched_getaffinity(third) == {min(allowed)}


def test_one_thread_alone_and_one_that_has_ended_are_left_alone():
    allowed = os.sched_getaffinity(0)
    with threads.pinned_to_cores([threading.get_native_id(), 2**22 + 1]):
        assert os.sched_getaffinity(0) == allowed


def spin(seconds):
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def test_the_busiest_threads_are_those_that_ran(idle_threads):
    before = thread_times()
    spin(0.03)
    busy = threads.busiest(before, thread_times())
    assert threading.get_native_id() in busy
    assert not set(idle_threads) & set(busy)


@SEVERAL_CORES
def test_threads_that_worked_once_make_room_for_those_that_work_now():
    """As OpenMP's do, which spin on after a check while a call's own threads begin."""
    allowed = os.sched_getaffinity(0)
    known = threads.WorkingThreads(2)
    bound = []
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(2) as later:
        with known.pinned():
            first.submit(spin, 0.05).result()
        for _ in range(2):
            with known.pinned():
                together = [later.submit(spin, 0.05) for _ in range(2)]
                bound = [
                    thread.native_id
                    for thread in later._threads
                    if os.sched_getaffinity(thread.native_id) != allowed
                ]
                for future in together:
                    future.result()
        assert sorted(bound) == sorted(thread.native_id for thread in later._threads)
