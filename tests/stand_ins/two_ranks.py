"""One of two ranks, in a process of its own: what both must do together, and what is left behind.

    python -m tests.stand_ins.two_ranks FOLDER

Rank 0 leaves answers as JSON and the averaged gradients; then rank 1 is lost.
"""

import json
import os
import sys
from itertools import cycle
from pathlib import Path

import torch

from batchmark_job.distributed import all_reduce, reading, training
from batchmark_job.distributed.batches import synthetic
from batchmark_job.distributed.gradients import differing_weights
from batchmark_job.distributed.rank import explained
from batchmark_job.distributed.shards import find_shards
from batchmark_job.distributed.stopwatch import Stopwatch
from batchmark_job.distributed.task import AllReduce, Read
from batchmark_job.distributed.world import World
from tests.builders.shards import a_task

WAIT_SECONDS = 60.0


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    world = World.from_environment("cpu")
    with world.joined(WAIT_SECONDS):
        task = a_task()
        batches = synthetic(task, world)
        trainer = training.Trainer(task, world, iter(batches))
        trainer.forward_and_backward(*batches[0])
        gradients = [weight.grad.clone() for weight in trainer.network.weights]
        same = differing_weights(trainer.network, world)
        trainer.step_alone(batches[0], Stopwatch(world.device))
        parted = differing_weights(trainer.network, world)
        answers = {
            "train": training.measure(task, world, cycle(batches)),
            "all_reduce": all_reduce.measure(
                AllReduce(device="cpu", size_bytes=40_000, calls=5, max_seconds=5, threads=1), world
            ),
            "read": reading.measure(
                Read(device="cpu", folder=folder, cold=False, passes=3, max_seconds=5, threads=2),
                world,
                find_shards(folder, world),
            ),
        }
        if world.rank == 1:
            os._exit(0)
        torch.save(gradients, folder / "gradients.pt")
        (folder / "differing.json").write_text(json.dumps([same, parted]))
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
