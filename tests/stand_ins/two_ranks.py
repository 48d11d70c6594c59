"""One of two ranks, in a process of its own: what both must do together, and what is left behind.

    python -m tests.stand_ins.two_ranks FOLDER

Rank 0 leaves answers as JSON and the averaged gradients; then rank 1 is lost.
"""

import json
import os
import sys
import time
from itertools import count, cycle
from pathlib import Path

import torch

from batchmark_job.distributed.ranks import all_reduce, reading, training
from batchmark_job.distributed.ranks.batches import Source, synthetic
from batchmark_job.distributed.ranks.gradients import (
    MOST_NUMBERS,
    check_gradients,
    differing_weights,
    smooth_weights,
)
from batchmark_job.distributed.ranks.rank import explained
from batchmark_job.distributed.ranks.shards import find_shards
from batchmark_job.distributed.ranks.stopwatch import Stopwatch, time_calls
from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import AllReduce, Read
from tests.builders.shards import a_task
from tests.stand_ins.thin_network import become_thin
from tests.waiting import PATIENCE_SECONDS


def partly_averaged(trainer):
    """Leaves each rank its own gradients of large kernels."""

    def backward(pictures, labels):
        trainer.forward_and_backward_alone(pictures, labels)
        own = [weight.grad.clone() for weight in trainer.network.weights]
        loss = trainer.forward_and_backward(pictures, labels)
        for weight, gradient in zip(trainer.network.weights, own, strict=True):
            if weight.numel() > MOST_NUMBERS:
                weight.grad.copy_(gradient)
        return loss

    return backward


def held_up_in_turn(world):
    """Seconds of 20 calls that take one rank 2 ms and the other 20.

    Of the samples, of the slower rank, and of each call's slower rank.
    """
    number = count()

    def call(stopwatch):
        time.sleep(0.02 if next(number) % 2 == world.rank else 0.002)
        stopwatch.mark()

    timed = time_calls(world, call, 20, 10.0, 0.02)
    calls = [sum(laps) for laps in timed.laps]
    return sum(timed.samples), *world.largest([sum(calls)]), sum(world.largest(calls))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    become_thin()
    world = World.from_environment("cpu")
    with world.joined(PATIENCE_SECONDS):
        task = a_task()
        batches = synthetic(task, world)
        trainer = training.Trainer(task, world, Source(cycle(batches)))
        with trainer.network.other_weights(smooth_weights(task.dtype)):
            trainer.forward_and_backward(*batches[0])
            gradients = [weight.grad.clone() for weight in trainer.network.weights]
        unaveraged = check_gradients(
            trainer.network,
            partly_averaged(trainer),
            trainer.forward_and_backward_alone,
            batches[0],
            task.dtype,
            world,
        )
        differing = [differing_weights(trainer.network, world)]
        with torch.no_grad():  # two numbers of rank 1, whose sum stays
            trainer.network.weights[-1][:2] += torch.tensor([1.0, -1.0]) * world.rank
        differing.append(differing_weights(trainer.network, world))
        trainer.step_alone(Stopwatch(world.device))
        differing.append(differing_weights(trainer.network, world))
        jitter = held_up_in_turn(world)
        answers = {
            "train": training.measure(task, world, Source(cycle(batches))),
            "all_reduce": all_reduce.measure(
                AllReduce(device="cpu", size_bytes=40_000, samples=5, max_seconds=5, threads=1),
                world,
            ),
            "read": reading.measure(
                Read(device="cpu", folder=folder, cold=False, samples=3, max_seconds=5, threads=2),
                world,
                find_shards(folder, world),
            ),
        }
        if world.rank == 1:
            os._exit(0)
        torch.save(gradients, folder / "gradients.pt")
        (folder / "differing.json").write_text(json.dumps(differing))
        (folder / "unaveraged.json").write_text(unaveraged.model_dump_json())
        (folder / "jitter.json").write_text(json.dumps(jitter))
        for name, answer in answers.items():
            (folder / f"{name}.json").write_text(answer.model_dump_json())
        try:
            world.wait_for_all()
        except RuntimeError as error:
            code, message = explained(error, task)
            (folder / "lost.txt").write_text(f"{code} {message}")
            os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
