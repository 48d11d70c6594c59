"""ResNet-50 trained by all ranks together, each on batches of its own.

By DistributedDataParallel, and by one rank alone without it. SGD has momentum, and weight decay on
all weights; normalisation is by each rank's own batch. Steps are timed on the device without a stop
between them. `compute` is of later steps that wait for their data and exchange nothing, and
`communication` what a step without its wait takes longer than that; all parts are means.
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

WARMUP_SHARE = 0.1  # of the time to sample
MOST_WARMUP = 10  # steps
# On CUDA, however many steps: clocks and temperature take seconds to settle.
WARMUP_SECONDS = 5.0
MOST_COMPUTE = 20  # samples of steps that exchange nothing
COMPUTE_SHARE = 0.2  # of the time to sample
POWER = 2  # by which the learning rate falls
MOST_LOSSES = 100
# What the log says that these take, before anybody knows.
FIRST_STEP = "a minute"
CHECK = "5 to 60 s"


def train(task: Train) -> Answer:
    """Warm up, time steps, and check what came out.

    Raises:
        CannotMeasureError: the device does not train in this dtype.
        InputError: the files to train on are not what they should be, or training diverges.
    """
    world = World.from_environment(task.device)
    if task.dtype not in TRAINING_DTYPES:
        known = ", ".join(TRAINING_DTYPES)
        raise InputError(f"training in {task.dtype!r} is not there; known: {known}")
    if refusal := torch_calls.native_refusal(task.device, task.dtype):
        raise CannotMeasureError(refusal)
    if task.batch * math.ceil(task.image / REDUCTION) ** 2 == 1:
        raise InputError(
            f"a batch of 1 image of {task.image} x {task.image} leaves the last layers one value "
            f"per channel, and nothing to normalise; give a batch of 2, or images of "
            f"{REDUCTION + 1}"
        )
    threads.set_threads(task.threads)
    with batches(task, world) as source, world.joined():
        return measure(task, world, source)


def measure(task: Train, world: World, source: Source) -> Answer:
    """Among ranks that have met."""
    with torch_calls.precision(task.dtype), torch_calls.cudnn_search():
        world.say(f"{count(world.size, 'rank')} met; making the network and its weights")
        trainer = Trainer(task, world, source)
        world.say(f"first step, for which libraries choose their kernels (up to {FIRST_STEP})")
        cold = longest_seconds(world, trainer.step)
        world.say(f"it took {duration(cold)}; checking gradients in float64 on the CPU ({CHECK})")
        correctness = check_gradients(
            trainer.network,
            trainer.forward_and_backward,
            trainer.forward_and_backward_alone,
            next(source.batches),
            task.dtype,
            world,
        )
        world.say(f"warming up (about {duration(_warmup_seconds(task, world))})")
        for _ in range(source.queued):  # what was made during the check would be had for nothing
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
        wrong = "the averaged gradients are not the mean of what each rank's images give"
    elif differing:
        wrong = (
            f"{differing} of {len(trainer.network.weights)} weights differ between ranks after "
            f"{trainer.steps_made} steps from the same start"
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
        """Two laps: the wait for a batch, and all the rest."""
        batch = next(self._batches)
        stopwatch.mark()
        self._losses.append(self.forward_and_backward(*batch))
        self._update()
        stopwatch.mark()

    def step_alone(self, stopwatch: Stopwatch) -> None:
        """The same without an exchange: the ranks' weights are no longer the same."""
        batch = next(self._batches)
        stopwatch.mark()
        self.forward_and_backward_alone(*batch)
        self._update()
        stopwatch.mark()

    def forward_and_backward(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """The loss; the gradients are the mean of all ranks', which are exchanged meanwhile."""
        self._optimiser.zero_grad()
        with self._autocast:
            logits = (self._ddp or self.network)(pictures)
            loss = F.cross_entropy(logits, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def forward_and_backward_alone(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """The loss; the gradients are this rank's own."""
        with self._ddp.no_sync() if self._ddp is not None else nullcontext():
            return self.forward_and_backward(pictures, labels)

    def mean_losses(self) -> tuple[float, ...]:
        """Over all ranks, of steps evenly from the first to the last.

        Raises:
            InputError: training has diverged.
        """
        losses = self._world.mean(torch.stack(self._losses).tolist())
        for number, loss in enumerate(losses):
            if not math.isfinite(loss):
                raise InputError(
                    f"training diverged: the loss is {loss} at step {number + 1}, with a learning "
                    f"rate of {self._learning_rate(number):.3g} there; give a smaller "
                    "--learning-rate, or more warm-up epochs"
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
    """It rises linearly over the warm-up epochs, then falls as a square, to 0 after the last one.

    Source: Goyal et al., https://arxiv.org/abs/1706.02677, section 2.2, and the "poly" policy of
    Liu et al., https://arxiv.org/abs/1506.04579.

    Args:
        images_seen: by all ranks, those of the step included, so that the first step counts.
    """
    epoch = images_seen / settings.images_per_epoch
    if epoch < settings.warmup_epochs:
        return settings.learning_rate * epoch / settings.warmup_epochs
    if epoch >= settings.epochs:
        return 0.0
    left = (settings.epochs - epoch) / (settings.epochs - settings.warmup_epochs)
    return float(settings.learning_rate * left**POWER)


def _data_parallel(network: ResNet50, world: World) -> DistributedDataParallel:
    """Nothing but gradients is exchanged: the network has no buffers."""
    return DistributedDataParallel(
        network,
        device_ids=[world.device.index] if world.device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )


def _warm_up(task: Train, world: World, trainer: Trainer, period: int) -> float:
    """The seconds that a step takes afterwards, of all ranks."""
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
    """Last, as its steps without an exchange part the ranks' weights.

    Means, as workers of a loader that is too slow make all wait at few steps only.
    """
    data, rest = timed.mean_laps()
    alone = rest
    if world.size > 1:
        (expected,) = world.largest([data + rest])
        # Batches are taken here, too: else a loader that shares the CPU would idle.
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
