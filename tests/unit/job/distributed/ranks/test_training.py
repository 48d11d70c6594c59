"""One rank alone, in the test's process; two are in tests/e2e/job/test_two_ranks.py."""

import re
import statistics
import time
from contextlib import nullcontext
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.data import IterableDataset

from batchmark_job.distributed.ranks import gradients, loader, stopwatch, training
from batchmark_job.distributed.ranks.batches import Source, batches, synthetic
from batchmark_job.distributed.ranks.network import ResNet50
from batchmark_job.distributed.ranks.stopwatch import Stopwatch
from batchmark_job.distributed.ranks.training import MOST_LOSSES, Trainer, learning_rate, measure
from batchmark_job.distributed.ranks.world import World
from batchmark_job.errors import InputError
from batchmark_job.result.document import Correctness
from batchmark_job.workloads import resnet50
from tests.builders.shards import SETTINGS, a_task, alone, write_shards
from tests.stand_ins import cuda


@pytest.fixture
def quick(monkeypatch):
    """Steps of 1 ms that train nothing, after a check that lets a loader fill its queue."""

    def step(trainer, pictures, labels):
        time.sleep(0.001)
        return torch.tensor(7.0)

    def count(trainer):
        trainer.steps_made += 1

    right = Correctness(relative_error=0.0, tolerance=1e-3)
    monkeypatch.setattr(training, "check_gradients", lambda *_: time.sleep(0.3) or right)
    monkeypatch.setattr(Trainer, "forward_and_backward", step)
    monkeypatch.setattr(Trainer, "_update", count)


@pytest.fixture
def clock(monkeypatch):
    """Stands for the stopwatch's `time`: only steps take some."""
    made = SimpleNamespace(now=0.0, perf_counter=lambda: made.now)
    monkeypatch.setattr(stopwatch, "time", made)
    return made


class Slow(IterableDataset):
    """Images that take a worker 80 ms each: much longer than a busy machine delays a step."""

    def __iter__(self):
        while True:
            time.sleep(0.08)
            yield np.zeros((32, 32, 3), np.uint8), 1


@pytest.mark.usefixtures("quick", "thin_network")
@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # they sleep
def test_a_loader_that_is_too_slow_is_seen_in_all_steps(tmp_path, monkeypatch):
    """Four workers make a batch of two every 40 ms, all four at about the same time."""
    write_shards(tmp_path)
    monkeypatch.setattr(loader, "Images", lambda *_: Slow())
    task = a_task(data="files", folder=tmp_path, threads=4, samples=10, max_seconds=60.0)
    with batches(task, alone()) as source:
        answer = measure(task, alone(), source)
    supply = 2 * 0.08 / 4
    assert statistics.median(answer.samples_seconds) > 0.95 * supply
    assert answer.split.data_seconds > 0.5 * supply
    assert len(answer.starts) == len(answer.samples_seconds) + 1 == 11
    true = (answer.starts[-1] - answer.starts[0]) / (4 * 10)
    assert statistics.fmean(answer.samples_seconds) == pytest.approx(true, rel=0.5)


@pytest.mark.usefixtures("quick", "thin_network")
def test_steps_without_an_exchange_take_batches_too():
    """Else workers that share the CPU would idle, and the exchange seem to take their time."""
    task = a_task()
    left = iter(synthetic(task, alone())[:2])
    stopwatch = Stopwatch(torch.device("cpu"))
    Trainer(task, alone(), Source(left)).step_alone(stopwatch)
    assert len(list(left)) == 1
    assert len(stopwatch.seconds()) == 1, "between the batch and the end"


@pytest.mark.usefixtures("quick", "thin_network")
def test_each_phase_says_what_it_does_and_how_long_that_takes(capsys):
    """On an H200 nothing was said for 45 s, and nobody knew what took them."""
    task = a_task()
    measure(task, alone(), Source(cycle(synthetic(task, alone()))))
    lines = capsys.readouterr().out.splitlines()
    phases = ("network", "first step", "gradients", "warm", "measuring")
    assert all(phase in line for phase, line in zip(phases, lines, strict=True))
    assert all(re.search(r"\d+(\.\d+)? m?s|a minute", line) for line in lines[1:])


@pytest.mark.usefixtures("quick", "thin_network")
def test_steps_that_become_slower_are_told(monkeypatch, clock):
    def update(trainer):
        trainer.steps_made += 1
        clock.now += 0.001 if trainer.steps_made <= 1 + training.MOST_WARMUP + 10 else 0.02

    monkeypatch.setattr(Trainer, "_update", update)
    task = a_task(samples=20, max_seconds=60.0)
    answer = measure(task, alone(), Source(cycle(synthetic(task, alone()))))
    assert answer.remark.startswith("the median of the last 6 samples differs by +")


@pytest.mark.usefixtures("quick", "thin_network")
@pytest.mark.skipif(cuda.REAL_DEVICE, reason="simulates a GPU where there is none")
def test_a_gpu_is_warmed_up_for_a_time(monkeypatch, clock):
    def update(trainer):
        trainer.steps_made += 1
        clock.now += 0.01

    monkeypatch.setattr(Trainer, "_update", update)
    monkeypatch.setattr(training, "WARMUP_SECONDS", 0.3)
    with cuda.installed("A10G"):
        world = World(0, 1, torch.device("cuda", 0))
        task = a_task(device="cuda", max_seconds=1.0)
        answer = measure(task, world, Source(cycle(synthetic(task, world))))
    assert training.MOST_WARMUP + 1 < answer.warmup_calls <= 2 + 0.3 / 0.01


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def test_the_network_is_a_resnet_50_that_begins_by_knowing_nothing():
    """Before the first step all classes are about as likely: the loss is log(1000)."""
    network = ResNet50("float32", 0, torch.device("cpu"))
    assert sum(weight.numel() for weight in network.parameters()) == 25_557_032
    assert len(list(network.parameters())) == 161
    assert not list(network.buffers()), "data-parallel training would exchange them"
    ((pictures, labels), *_) = synthetic(a_task(image=64, batch=4), alone())
    with torch.no_grad():
        assert float(F.cross_entropy(network(pictures), labels)) == pytest.approx(6.9, abs=0.5)


@pytest.mark.usefixtures("thin_network")
def test_a_step_is_that_of_a_float64_reference():
    """In float32, with two steps so that momentum and weight decay take part.

    The reference is written out: gradients by autograd in float64 on contiguous weights, then
    v = m v + g + d w and w = w - rate v.
    """
    task = a_task(image=64, batch=4)
    batches = synthetic(task, alone())
    trainer = Trainer(task, alone(), Source(iter(batches)))
    with torch.no_grad():
        flat = gradients.smooth_weights("float32")
        trainer.network._load(gradients.views(flat, gradients.SHAPES, channels_last=False))
    expected = [weight.detach().double().contiguous() for weight in trainer.network.weights]
    before = [weight.clone() for weight in expected]
    velocity = [torch.zeros_like(weight) for weight in expected]
    workload = resnet50.ResNet50Training()
    for number, (pictures, labels) in enumerate(batches[:2]):
        trainer.step(Stopwatch(trainer._world.device))
        weights = [weight.clone().requires_grad_() for weight in expected]
        loss = F.cross_entropy(workload.network(weights)(pictures.double()), labels)
        rate = learning_rate(SETTINGS, (number + 1) * task.batch)
        for index, gradient in enumerate(torch.autograd.grad(loss, weights)):
            decayed = gradient + SETTINGS.weight_decay * expected[index]
            velocity[index] = SETTINGS.momentum * velocity[index] + decayed
            expected[index] = expected[index] - rate * velocity[index]
    pairs = zip(expected, before, strict=True)
    largest = max(float((now - then).abs().max()) for now, then in pairs)
    for weight, reference in zip(trainer.network.weights, expected, strict=True):
        assert float((weight.detach() - reference).abs().max()) < 1e-3 * largest
    assert trainer.steps_made == 2


@pytest.mark.usefixtures("thin_network")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_it_learns_and_answers(device, monkeypatch):
    monkeypatch.setattr(training, "WARMUP_SECONDS", 0.5)
    if device == "cuda" and cuda.REAL_DEVICE:
        pytest.skip("simulates a GPU where there is none")
    task = a_task(device=device, batch=8, samples=6 if device == "cpu" else 16, max_seconds=60.0)
    with nullcontext() if device == "cpu" else cuda.installed("A10G") as gpu:
        world = World(0, 1, torch.device(device, 0))
        answer = measure(task, world, Source(cycle(synthetic(task, world))))
        assert gpu is None or answer.peak_memory_bytes == gpu.peak_bytes
    assert answer.wrong is None
    assert answer.correctness.relative_error < 1e-3
    first, last = answer.losses[0], answer.losses[-1]
    assert last < first / 2
    steps = answer.warmup_calls + len(answer.samples_seconds)
    assert len(answer.losses) == min(MOST_LOSSES, steps)  # a thin network may warm up for more
    assert len(answer.starts) == len(answer.samples_seconds) + 1
    assert answer.items == 8
    assert answer.gradient_bytes == 4 * resnet50.WEIGHT_COUNT
    assert answer.split.communication_seconds == 0
    assert answer.split.compute_seconds > answer.split.data_seconds


@pytest.mark.usefixtures("thin_network")
def test_wrong_gradients_are_told():
    task = a_task()
    trainer = Trainer(task, alone(), Source(iter(synthetic(task, alone()))))

    def halved(pictures, labels):
        loss = trainer.forward_and_backward(pictures, labels)
        for weight in trainer.network.weights:
            weight.grad.mul_(0.5)
        return loss

    batch, by_itself = synthetic(task, alone())[0], trainer.forward_and_backward_alone
    correctness = gradients.check_gradients(
        trainer.network, halved, by_itself, batch, task.dtype, alone()
    )
    assert not correctness.passed
    assert correctness.relative_error == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("batch", "image", "repeats", "side"),
    [(64, 224, 32, 224), (7, 224, 7, 224), (1, 224, 1, 224), (8, 32, 1, 64), (256, 32, 4, 32)],
)
def test_few_images_stand_for_a_batch(batch, image, repeats, side):
    pictures = torch.rand(batch, 1, 1, 1).expand(batch, 3, image, image)
    labels = torch.arange(batch)
    (few, their), step = gradients.few_repeated((pictures, labels))
    assert step == repeats
    assert few.shape == (batch, 3, side, side)
    assert their[::step].tolist() == list(range(batch // step))
    assert torch.equal(few[::step, :, 0, 0], pictures[: batch // step, :, 0, 0])


@pytest.mark.usefixtures("thin_network")
def test_a_loss_that_is_no_number_names_the_step_and_the_rate():
    task = a_task()
    trainer = Trainer(task, alone(), Source(iter(())))
    trainer._losses = [torch.tensor(7.0), torch.tensor(float("nan"))]
    with pytest.raises(InputError, match=r"loss is nan at step 2, where .* rate is 0\.00125"):
        trainer.mean_losses()


@pytest.mark.usefixtures("thin_network")
@pytest.mark.parametrize("steps", [1, 3, 1000])
def test_losses_are_kept_from_the_first_to_the_last_step(steps):
    trainer = Trainer(a_task(), alone(), Source(iter(())))
    trainer._losses = [torch.tensor(float(number)) for number in range(steps)]
    losses = list(trainer.mean_losses())
    assert len(losses) == min(steps, 100)
    assert (losses[0], losses[-1]) == (0, steps - 1)
    assert losses == sorted(set(losses))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"batch": 1, "image": 32},
            "1 image of 32 x 32 .* use a batch of 2 or more, or images of 33",
        ),
        ({"dtype": "int8"}, "can't train in 'int8'; known: float32"),
    ],
)
def test_what_can_not_be_trained_is_refused(changes, message, place):
    place()
    with pytest.raises(InputError, match=message):
        training.train(a_task(**changes))


RATES = {"learning_rate": 2.0, "images_per_epoch": 1000}


@pytest.mark.parametrize(
    ("warmup", "epoch", "rate"),
    [
        (10, 0.001, 0.0002),
        (10, 5, 1.0),
        (10, 9.999, 1.9998),
        (10, 10, 2.0),
        (10, 50, 0.5),  # half of the 80 epochs are left: a quarter
        (10, 70, 0.125),
        (10, 89, 2.0 / 6400),
        (10, 90, 0.0),
        (10, 120, 0.0),
        (0, 0, 2.0),
        *((whole, 45, 2.0 * 45 / whole) for whole in (90, 100)),  # nothing is left to divide by
        *((whole, 200, 0.0) for whole in (90, 100)),
    ],
)
def test_it_rises_linearly_and_falls_as_a_square(warmup, epoch, rate):
    settings = SETTINGS.model_copy(update=RATES | {"warmup_epochs": warmup})
    assert learning_rate(settings, round(1000 * epoch)) == pytest.approx(rate, rel=1e-12)
