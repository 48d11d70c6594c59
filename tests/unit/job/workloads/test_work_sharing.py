"""Tasks shared out among threads."""

import threading

import pytest
import torch

from batchmark_job.workloads.support.work_sharing import share_out


def test_every_task_is_done_once_per_call_by_no_more_workers_than_there_are():
    done = []
    call = share_out(range(100), [done.append] * 3)
    call()
    call()
    assert sorted(done) == sorted([*range(100), *range(100)])
    share_out([1], [done.append] * 4)()
    assert done[200:] == [1]


def test_workers_work_at_the_same_time_and_in_one_thread_each():
    """Each waits until the others have begun, so that fewer threads would never end."""
    barrier = threading.Barrier(3, timeout=30)

    def worker(own):
        def work(task):
            own.append(threading.get_ident())
            if task < 3:
                barrier.wait()

        return work

    threads = [[], [], []]
    share_out(range(30), [worker(own) for own in threads])()
    assert len({thread for own in threads for thread in own}) == 3
    assert all(len(set(own)) == 1 for own in threads)


def test_each_thread_computes_alone_and_an_error_reaches_the_caller():
    counts = []
    share_out(range(2), [lambda _: counts.append(torch.get_num_threads())] * 2)()
    assert counts == [1, 1]

    def work(task):
        if task == 5:
            raise ValueError("task 5 is broken")

    with pytest.raises(ValueError, match="task 5 is broken"):
        share_out(range(10), [work] * 2)()
