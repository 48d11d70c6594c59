"""Two ranks on loopback, started once for all tests here."""

import json
import os
import statistics
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from batchmark_job.distributed.ranks.batches import synthetic
from batchmark_job.distributed.ranks.gradients import smooth_weights
from batchmark_job.distributed.ranks.network import ResNet50
from batchmark_job.distributed.ranks.rank import LOST_CODE
from batchmark_job.distributed.task import Answer
from batchmark_job.result.document import Correctness
from laptop.processes import free_port
from tests.builders.shards import a_task, alone, write_shards
from tests.paths import ROOT
from tests.stand_ins.thin_network import become_thin
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The folder with what they left."""
    folder = tmp_path_factory.mktemp("ranks")
    write_shards(folder)
    common = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "job_container"))),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.stand_ins.two_ranks", str(folder)],
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=PATIENCE_SECONDS)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert not any("Warning" in text for text in said), said
    return folder


def answer(folder, name):
    return Answer.model_validate_json((folder / f"{name}.json").read_bytes())


def test_gradients_are_those_of_one_process_that_accumulates_both_batches(left, monkeypatch):
    become_thin(monkeypatch.setattr)
    task = a_task()
    torch.set_num_threads(1)
    network = ResNet50(task.dtype, task.seed, torch.device("cpu"))
    with network.other_weights(smooth_weights(task.dtype)):
        for rank in range(2):
            pictures, labels = synthetic(task, alone(rank, 2))[0]
            (F.cross_entropy(network(pictures), labels) / 2).backward()
    averaged = torch.load(left / "gradients.pt")
    largest = max(float(weight.grad.abs().max()) for weight in network.weights)
    assert largest > 0.1
    for weight, gradient in zip(network.weights, averaged, strict=True):
        assert float(weight.grad.abs().max()) > 0, "zeros are alike however they are made"
        assert float((weight.grad - gradient).abs().max()) < 1e-5 * float(weight.grad.abs().max())


def test_large_kernels_that_are_not_averaged_are_told(left):
    found = Correctness.model_validate_json((left / "unaveraged.json").read_bytes())
    assert not found.passed
    assert found.relative_error > 0.1


def test_what_holds_up_one_rank_and_then_the_other_counts_once(left):
    """Each rank takes 11 ms a call on average, and the longest of each call 20."""
    together, slower, longest = json.loads((left / "jitter.json").read_text())
    assert together == pytest.approx(slower)
    assert 20 * 0.011 <= together < longest


def test_weights_that_part_are_counted(left):
    """The ranks begin alike; a step without an exchange changes all weights that have a gradient.

    In the first step kernels within blocks have none, as the scales behind them are 0.
    """
    same, of_the_same_sum, parted = json.loads((left / "differing.json").read_text())
    assert (same, of_the_same_sum) == (0, 1)
    assert 20 < parted < 161


def test_training_answers_for_both(left):
    found = answer(left, "train")
    assert found.wrong is None
    assert found.correctness.relative_error < 1e-3
    assert found.items == 4
    assert 0 <= found.split.communication_seconds < statistics.fmean(found.samples_seconds)
    assert found.split.compute_seconds > 0
    assert "DistributedDataParallel" in found.implementation.name


def test_sums_are_exact(left):
    found = answer(left, "all_reduce")
    assert (found.correctness.relative_error, found.wrong) == (0.0, None)
    assert len(found.samples_seconds) == 5
    assert found.bytes_moved == 80_000


def test_all_bytes_of_all_shards_are_read_in_each_pass(left):
    found = answer(left, "read")
    assert found.bytes_moved == sum(path.stat().st_size for path in left.glob("*.tar"))
    assert found.correctness.relative_error == 0
    assert len(found.samples_seconds) == 3


def test_a_lost_rank_is_an_error_that_says_so(left):
    code, _, message = (left / "lost.txt").read_text().partition(" ")
    assert int(code) == LOST_CODE
    assert message.startswith("another rank has ended, or did not respond in time: ")
