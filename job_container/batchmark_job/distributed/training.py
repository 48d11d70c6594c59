"""ResNet-50 trained by all ranks together, each on batches of its own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from batchmark_job.distributed.batches import Batch, batches
from batchmark_job.distributed.gradients import check_gradients, differing_weights
from batchmark_job.distributed.network import ResNet50
from batchmark_job.distributed.schedule import learning_rate
from batchmark_job.distributed.stopwatch import Stopwatch, Timed, longest_seconds, time_calls
from batchmark_job.distributed.task import Answer, Train
from batchmark_job.distributed.world import World
from batchmark_job.errors import CannotMeasureError, InputError
from batchmark_job.machine import memory, threads
from batchmark_job.result import Implementation
from batchmark_job.result_scaling import StepSplit
from batchmark_job.workloads.support import torch_calls

DTYPES = ("float32", "tf32", "bfloat16", "float64")
BEFORE_WARMUP = 2  # steps: the cold one, and one that tells how long they take
WARMUP_SHARE = 0.1  # of the time to sample
MOST_WARMUP = 10  # steps
MOST_COMPUTE = 20  # steps that exchange nothing
COMPUTE_SHARE = 0.2  # of the time to sample
MOST_LOSSES = 100


def train(task: Train) -> Answer:
    """Warm up, time steps, and check what came out.

    Raises:
        CannotMeasureError: the device does not train in this dtype.
        InputError: the files to train on are not what they should be, or training diverges.
    """
    world = World.from_environment(task.device)
    if task.dtype not in DTYPES:
        raise InputError(f"training in {task.dtype!r} is not there; known: {', '.join(DTYPES)}")
    if refusal := torch_calls.native_refusal(task.device, task.dtype):
        raise CannotMeasureError(refusal)
    threads.set_threads(task.threads)
    with batches(task, world) as source, world.joined():
        return measure(task, world, source)


def measure(task: Train, world: World, source: Iterator[Batch]) -> Answer:
    """Among ranks that have met."""
    with torch_calls.precision(task.dtype), torch_calls.cudnn_search():
        trainer = Trainer(task, world, source)
        cold = longest_seconds(world, trainer.step)
        correctness = check_gradients(
            trainer.network, trainer.forward_and_backward, next(source), task.dtype, world
        )
        expected = longest_seconds(world, trainer.step)
        warmup = int(WARMUP_SHARE * task.max_seconds / expected)
        warmup = min(max(warmup, 1), MOST_WARMUP)
        expected = statistics.median(longest_seconds(world, trainer.step) for _ in range(warmup))
        timed = time_calls(world, trainer.step, task.steps, task.max_seconds, expected)
        losses = trainer.mean_losses()
        differing = differing_weights(trainer.network, world)
        split = _split(task, world, trainer, source, timed)
    wrong = None
    if not correctness.passed:
        wrong = "the averaged gradients are not the mean of what each rank's images give in float64"
    elif differing:
        wrong = (
            f"{differing} of {len(trainer.network.weights)} weights differ between ranks after "
            f"{trainer.steps_made} steps from the same start"
        )
    (peak,) = world.largest([float(memory.peak_bytes(task.device) or 0)])
    return Answer(
        implementation=Implementation(
            name="torch DistributedDataParallel, channels-last"
            if world.size > 1
            else "torch channels-last",
            version=torch.__version__,
            threads=task.threads,
        ),
        cold_seconds=cold,
        samples_seconds=timed.samples(world),
        starts=timed.all_starts(),
        warmup_calls=BEFORE_WARMUP + warmup,
        correctness=correctness,
        wrong=wrong,
        items=task.batch * world.size,
        split=split,
        losses=losses,
        gradient_bytes=sum(weight.nbytes for weight in trainer.network.weights),
        peak_memory_bytes=int(peak) or None,
    )


class Trainer:
    """A rank's network, optimiser and losses."""

    def __init__(self, task: Train, world: World, source: Iterator[Batch]) -> None:
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
        self._task, self._world, self._source = task, world, source
        self._losses: list[Tensor] = []
        mixed = task.dtype == "bfloat16"
        self._autocast: AbstractContextManager[object] = (
            torch.autocast(task.device, torch.bfloat16) if mixed else nullcontext()
        )

    def step(self, stopwatch: Stopwatch) -> None:
        """Two laps: the wait for a batch, and all the rest."""
        batch = next(self._source)
        stopwatch.mark()
        self._losses.append(self.forward_and_backward(*batch))
        self._update()
        stopwatch.mark()

    def step_alone(self, batch: Batch, stopwatch: Stopwatch) -> None:
        """One lap, without an exchange: the ranks' weights are no longer the same."""
        with self._ddp.no_sync() if self._ddp is not None else nullcontext():
            self.forward_and_backward(*batch)
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


def _data_parallel(network: ResNet50, world: World) -> DistributedDataParallel:
    """Nothing but gradients is exchanged: the network has no buffers."""
    return DistributedDataParallel(
        network,
        device_ids=[world.device.index] if world.device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )


def _split(
    task: Train, world: World, trainer: Trainer, source: Iterator[Batch], timed: Timed
) -> StepSplit:
    """Last, as its steps without an exchange part the ranks' weights."""
    data = statistics.median(waited for waited, _ in timed.laps)
    rest = statistics.median(rest for _, rest in timed.laps)
    alone = rest
    if world.size > 1:
        (expected,) = world.largest([rest])
        batch = next(source)
        compute = time_calls(
            world,
            lambda stopwatch: trainer.step_alone(batch, stopwatch),
            min(task.steps, MOST_COMPUTE),
            COMPUTE_SHARE * task.max_seconds,
            expected,
        )
        alone = statistics.median(seconds for (seconds,) in compute.laps)
    ranks = world.of_each_rank([data, alone, max(0.0, rest - alone)])
    parts = [statistics.median(values) for values in zip(*ranks, strict=True)]
    return StepSplit(
        data_seconds=parts[0], compute_seconds=parts[1], communication_seconds=parts[2]
    )
