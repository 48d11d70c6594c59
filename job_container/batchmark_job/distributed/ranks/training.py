"""Trains ResNet-50 on all ranks together, each on its own batches.

Ranks use DistributedDataParallel; a single rank trains without it. SGD uses momentum, and weight
decay on all weights. Each rank normalises over its own batch. Steps are timed on the device without
pauses between them. A step is split into `data` (the wait for a batch), `compute` and
`communication`. `compute` is measured in later steps that wait for data but exchange no gradients.
`communication` is how much longer a normal step takes, excluding the wait for data. Each part is
the median over the ranks of the mean per step.
"""

from __future__ import annotations

import math
import statistics
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from batchmark_job.distributed.point import TRAINING_DTYPES
from batchmark_job.distributed.ranks.batches import Source, batches
from batchmark_job.distributed.ranks.gradients import REDUCTION, check_gradients, differing_weights
from batchmark_job.distributed.ranks.network import ResNet50
from batchmark_job.distributed.ranks.stopwatch import Stopwatch, Timed, longest_seconds, time_calls
from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import Answer, Train
from batchmark_job.errors import CannotMeasureError, InputError
from batchmark_job.formatting import count, duration
from batchmark_job.machine import threads
from batchmark_job.measuring.samples.sample_statistics import drift
from batchmark_job.result.document import Implementation
from batchmark_job.result.scaling import StepSplit, TrainingSettings
from batchmark_job.workloads.support import torch_calls

WARMUP_SHARE = 0.1  # share of the sampling time
MOST_WARMUP = 10  # steps
# Minimum on CUDA, whatever the number of steps: clocks and temperature take seconds to settle.
WARMUP_SECONDS = 5.0
MOST_COMPUTE = 20  # samples of steps without an exchange
COMPUTE_SHARE = 0.2  # share of the sampling time
POWER = 2  # by which the learning rate falls
MOST_LOSSES = 100
# Expected durations for the log, before they are measured.
FIRST_STEP = "a minute"
CHECK = "5 to 60 s"


def train(task: Train) -> Answer:
    """Warm up, time steps, and check the results.

    Raises:
        CannotMeasureError: the device can't train in this dtype.
        InputError: an option or a training file is invalid, or training diverges.
    """
    world = World.from_environment(task.device)
    if task.dtype not in TRAINING_DTYPES:
        known = ", ".join(TRAINING_DTYPES)
        raise InputError(f"can't train in {task.dtype!r}; known: {known}")
    if refusal := torch_calls.native_refusal(task.device, task.dtype):
        raise CannotMeasureError(refusal)
    if task.batch * math.ceil(task.image / REDUCTION) ** 2 == 1:
        raise InputError(
            f"a batch of 1 image of {task.image} x {task.image} leaves the last layers with a "
            "single value per channel, which can't be normalised; use a batch of 2 or more, or "
            f"images of {REDUCTION + 1} or more pixels per side"
        )
    threads.set_threads(task.threads)
    with batches(task, world) as source, world.joined():
        return measure(task, world, source)


def measure(task: Train, world: World, source: Source) -> Answer:
    """Take the measurement after the ranks have joined."""
    with torch_calls.precision(task.dtype), torch_calls.cudnn_search():
        world.say(f"{count(world.size, 'rank')} joined; creating the network and its weights")
        trainer = Trainer(task, world, source)
        world.say(f"first step, in which libraries choose their kernels (up to {FIRST_STEP})")
        cold = longest_seconds(world, trainer.step)
        world.say(
            f"the first step took {duration(cold)}; checking gradients in float64 on the CPU "
            f"({CHECK})"
        )
        correctness = check_gradients(
            trainer.network,
            trainer.forward_and_backward,
            trainer.forward_and_backward_alone,
            next(source.batches),
            task.dtype,
            world,
        )
        world.say(f"warming up (about {duration(_warmup_seconds(task, world))})")
        for _ in range(source.queued):  # batches loaded during the check would be free of charge
            next(source.batches)
        expected = _warm_up(task, world, trainer, source.period)
        warmup_calls = trainer.steps_made
        most = min(task.max_seconds, expected * task.samples)
        world.say(f"a step takes {duration(expected)}; measuring (about {duration(most)})")
        timed = time_calls(
            world, trainer.step, task.samples, task.max_seconds, expected, source.period
        )
        losses = trainer.mean_losses()
        differing = differing_weights(trainer.network, world)
        split = _split(task, world, trainer, source.period, timed)
    wrong = None
    if not correctness.passed:
        wrong = "the averaged gradients differ from the mean of the ranks' own gradients"
    elif differing:
        wrong = (
            f"{differing} of {len(trainer.network.weights)} weights differ between ranks after "
            f"{trainer.steps_made} steps, although all ranks started with the same weights"
        )
    return Answer(
        implementation=Implementation(
            name="torch DistributedDataParallel, channels-last"
            if world.size > 1
            else "torch channels-last",
            version=torch.__version__,
            threads=task.threads,
        ),
        cold_seconds=cold,
        samples_seconds=tuple(timed.samples),
        starts=timed.all_starts(),
        warmup_calls=warmup_calls,
        correctness=correctness,
        wrong=wrong,
        items=task.batch * world.size,
        split=split,
        losses=losses,
        gradient_bytes=sum(weight.nbytes for weight in trainer.network.weights),
        peak_memory_bytes=world.peak_bytes(task.device),
        remark=drift(timed.samples),
    )


class Trainer:
    def __init__(self, task: Train, world: World, source: Source) -> None:
        self.steps_made = 0
        self.network = ResNet50(task.dtype, task.seed, world.device)
        self._ddp = _data_parallel(self.network, world) if world.size > 1 else None
        self._optimiser = torch.optim.SGD(
            self.network.parameters(),
            lr=0.0,
            momentum=task.settings.momentum,
            weight_decay=task.settings.weight_decay,
            fused=True,
        )
        self._task, self._world, self._batches = task, world, source.batches
        self._losses: list[Tensor] = []
        mixed = task.dtype == "bfloat16"
        self._autocast: AbstractContextManager[object] = (
            torch.autocast(task.device, torch.bfloat16) if mixed else nullcontext()
        )

    def step(self, stopwatch: Stopwatch) -> None:
        """Run a step in two laps: waiting for a batch, and everything else."""
        batch = next(self._batches)
        stopwatch.mark()
        self._losses.append(self.forward_and_backward(*batch))
        self._update()
        stopwatch.mark()

    def step_alone(self, stopwatch: Stopwatch) -> None:
        """Run a step without exchanging gradients; the ranks' weights differ afterwards."""
        batch = next(self._batches)
        stopwatch.mark()
        self.forward_and_backward_alone(*batch)
        self._update()
        stopwatch.mark()

    def forward_and_backward(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """Return the loss; the backward pass leaves gradients averaged over all ranks."""
        self._optimiser.zero_grad()
        with self._autocast:
            logits = (self._ddp or self.network)(pictures)
            loss = F.cross_entropy(logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def forward_and_backward_alone(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """Return the loss; the backward pass leaves this rank's own gradients."""
        with self._ddp.no_sync() if self._ddp is not None else nullcontext():
            return self.forward_and_backward(pictures, labels)

    def mean_losses(self) -> tuple[float, ...]:
        """Return losses averaged over ranks, at steps spread evenly from the first to the last.

        Raises:
            InputError: training has diverged.
        """
        losses = self._world.mean(torch.stack(self._losses).tolist())
        for number, loss in enumerate(losses):
            if not math.isfinite(loss):
                raise InputError(
                    f"training diverged: the loss is {loss} at step {number + 1}, where the "
                    f"learning rate is {self._learning_rate(number):.3g}; use a smaller "
                    "--learning-rate or more warm-up epochs"
                )
        count = min(MOST_LOSSES, len(losses))
        last = len(losses) - 1
        return tuple(losses[round(place * last / max(count - 1, 1))] for place in range(count))

    def _update(self) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = self._learning_rate(self.steps_made)
        self._optimiser.step()
        self.steps_made += 1

    def _learning_rate(self, steps_before: int) -> float:
        images_seen = (steps_before + 1) * self._task.batch * self._world.size
        return learning_rate(self._task.settings, images_seen)


def learning_rate(settings: TrainingSettings, images_seen: int) -> float:
    """Return the rate, which rises linearly during warm-up and then decays quadratically to 0.

    Source: Goyal et al., https://arxiv.org/abs/1706.02677, section 2.2, and the "poly" policy of
    Liu et al., https://arxiv.org/abs/1506.04579.

    Args:
        images_seen: images seen by all ranks, including this step's, so the first rate is not 0.
    """
    epoch = images_seen / settings.images_per_epoch
    if epoch < settings.warmup_epochs:
        return settings.learning_rate * epoch / settings.warmup_epochs
    if epoch >= settings.epochs:
        return 0.0
    left = (settings.epochs - epoch) / (settings.epochs - settings.warmup_epochs)
    return float(settings.learning_rate * left**POWER)


def _data_parallel(network: ResNet50, world: World) -> DistributedDataParallel:
    """Make the network data-parallel; it has no buffers, so only gradients are exchanged."""
    return DistributedDataParallel(
        network,
        device_ids=[world.device.index] if world.device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )


def _warm_up(task: Train, world: World, trainer: Trainer, period: int) -> float:
    """Warm up, and return the slowest rank's median seconds per step."""
    seconds = _warmup_seconds(task, world)
    most = math.inf if world.device.type == "cuda" else MOST_WARMUP

    def steps(stopwatch: Stopwatch) -> None:
        for _ in range(period):
            trainer.step(stopwatch)

    took: list[float] = []
    while not took or (sum(took) < seconds and len(took) * period < most):
        took.append(longest_seconds(world, steps))
    return statistics.median(took) / period


def _warmup_seconds(task: Train, world: World) -> float:
    if world.device.type == "cuda":
        return min(WARMUP_SECONDS, task.max_seconds)
    return WARMUP_SHARE * task.max_seconds


def _split(task: Train, world: World, trainer: Trainer, period: int, timed: Timed) -> StepSplit:
    """Split a step into its parts; call this last, because it makes the ranks' weights differ.

    Each rank's parts are means, because a slow loader delays only a few steps. The result is the
    median over the ranks.
    """
    data, rest = timed.mean_laps()
    alone = rest
    if world.size > 1:
        (expected,) = world.largest([data + rest])
        # Batches are taken here too; otherwise a loader that shares the CPU would idle.
        compute = time_calls(
            world,
            trainer.step_alone,
            min(task.samples, MOST_COMPUTE),
            COMPUTE_SHARE * task.max_seconds,
            expected,
            period,
        )
        _, alone = compute.mean_laps()
    ranks = world.of_each_rank([data, alone, max(0.0, rest - alone)])
    parts = [statistics.median(values) for values in zip(*ranks, strict=True)]
    return StepSplit(
        data_seconds=parts[0], compute_seconds=parts[1], communication_seconds=parts[2]
    )
