"""Tasks of ranks, and small shards that are made by hand."""

import io
import tarfile

import cv2
import numpy as np
import torch

from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import Train
from batchmark_job.result.scaling import TrainingSettings

SETTINGS = TrainingSettings(
    learning_rate=0.02,
    momentum=0.9,
    weight_decay=1e-4,
    epochs=90,
    warmup_epochs=1,
    images_per_epoch=64,
)


def a_task(**changes):
    task = {
        "device": "cpu",
        "dtype": "float32",
        "batch": 2,
        "image": 32,
        "data": "synthetic",
        "samples": 3,
        "max_seconds": 0.1,
        "settings": SETTINGS,
        "threads": 1,
    }
    return Train(**(task | changes))


def alone(rank=0, size=1):
    """A rank's place; where there are others, nobody has met them."""
    return World(rank=rank, size=size, device=torch.device("cpu"))


def write_shards(folder, shards=4, images=3):
    """Each image has a class of its own, from 0."""
    for number in range(shards):
        members = {}
        for index in range(number * images, (number + 1) * images):
            pixels = np.full((20, 24, 3), index, np.uint8)
            members[f"{index:06d}.jpg"] = bytes(cv2.imencode(".jpg", pixels)[1])
            members[f"{index:06d}.cls"] = str(index).encode()
        write_shard(folder / f"{number:06d}.tar", members)


def write_shard(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
