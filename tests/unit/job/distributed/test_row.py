"""Rows of the suite on one node, with ranks that do as they are told."""

from contextlib import closing

import pytest

from batchmark_job.distributed import local_ranks
from batchmark_job.distributed.node import Node
from batchmark_job.distributed.nodes import Nodes
from batchmark_job.distributed.point import AllReducePoint, ReadingPoint, ScalingPoint
from batchmark_job.distributed.row import ScalingRow
from batchmark_job.distributed.task import Ranks
from batchmark_job.machine.inventory import take_inventory
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.result.document import Correctness
from tests.stand_ins.workers import bench_here

LIMITS = RowLimits(samples=10, max_seconds=1.0)


@pytest.fixture
def bench():
    return bench_here(LIMITS)


@pytest.fixture
def row(monkeypatch, tmp_path):
    monkeypatch.setattr(local_ranks, "TORCHRUN", "tests.stand_ins.torchrun")
    with closing(Nodes(Node(0, 1))) as nodes:
        nodes.gather(take_inventory("cpu", 1, allow_cpu_fallback=False), devices=1)

        def make(measured=None, devices=1):
            measured = measured or ReadingPoint(tmp_path, cold=False)
            return ScalingRow.of(ScalingPoint(1, devices, measured), "float32", nodes)

        yield make


def test_each_launch_is_a_turn_of_fresh_processes_and_a_cold_pass_has_one(row, bench, tmp_path):
    made = row()
    measured = made.measure(bench)
    assert measured.status == "measured", measured.reason
    assert measured.workload == "read_images"
    assert measured.parameters == {"nodes": 1, "devices": 1, "pass": "warm"}
    assert measured.process_samples == measured.turn_samples == (4, 4)
    assert (measured.cold_seconds, measured.bytes_moved) == (0.5, 1000)
    scaling = measured.scaling
    assert (scaling.backend, scaling.ranks) == ("gloo", 1)
    assert scaling.settings is scaling.split is scaling.gpu_busy_share is None
    measured = row(ReadingPoint(tmp_path, cold=True)).measure(bench)
    assert measured.process_samples == (4,)
    assert measured.parameters["pass"] == "cold"
    assert measured.reason == "only 4 samples, too few for a confidence interval"


def test_a_rank_that_fails_costs_its_row_which_keeps_what_was_measured_before(row, bench, tmp_path):
    made = row()
    made.take_turn(bench)
    (tmp_path / "rank-0").write_text("fail")
    made.take_turn(bench)
    measured = made.measurement
    assert measured.status == "failed"
    assert measured.reason == "node 0 (127.0.0.1): rank 0: its shard has no end"
    assert measured.scaling.nodes[0].host == "127.0.0.1"
    assert measured.samples_seconds == (0.1, 0.2, 0.1, 0.1)


def test_a_wrong_result_fails_the_row(row, bench, monkeypatch):
    made = row()
    run = made.nodes.run

    def wrong(*arguments):
        off = Correctness(relative_error=2.0, tolerance=1.0)
        update = {"correctness": off, "wrong": "rank 1 has other weights"}
        return run(*arguments).model_copy(update=update)

    monkeypatch.setattr(made.nodes, "run", wrong)
    measured = made.measure(bench)
    assert measured.status == "failed"
    assert measured.reason == "wrong result: rank 1 has other weights"


def test_one_device_has_nothing_to_reduce(row, bench):
    measured = row(AllReducePoint(16)).measure(bench)
    assert measured.status == "skipped"
    assert measured.reason == "all-reduce needs more than one device"
    assert measured.parameters == {"nodes": 1, "devices": 1, "mib": 16}


def test_ranks_share_the_threads_and_the_time(tmp_path):
    ranks = Ranks(device="cpu", threads=3, samples=25, max_seconds=30.0)
    task = AllReducePoint(16).task(ranks)
    assert (task.size_bytes, task.samples, task.threads) == (16 * 2**20, 100, 3)
    task = ReadingPoint(tmp_path, cold=True).task(ranks)
    assert (task.samples, task.cold) == (1, True)
