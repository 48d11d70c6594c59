"""ResNet-50 with a quarter of its channels: all its layers, for a sixteenth of the work."""

from itertools import chain
from math import prod

from batchmark_job.distributed.ranks import gradients, network
from batchmark_job.workloads import resnet50
from batchmark_job.workloads.resnet50 import Block, Layer

NARROWER = 4


def become_thin(change=setattr):
    """Set its constants wherever they are read, by monkeypatch's `setattr` or for good."""
    stem = _thin_layer(resnet50.STEM)
    blocks = tuple(Block(*map(_thin_layer, block)) for block in resnet50.BLOCKS)
    shapes = tuple(tuple(map(_thin, shape)) for shape in resnet50.SHAPES)
    statistics = tuple(tuple(map(_thin, shape)) for shape in resnet50.STATISTICS_SHAPES)
    constants = {
        "STEM": stem,
        "BLOCKS": blocks,
        "LAYERS": (stem, *chain.from_iterable(block.layers() for block in blocks)),
        "FEATURES": _thin(resnet50.FEATURES),
        "SHAPES": shapes,
        "STATISTICS_SHAPES": statistics,
        "WEIGHT_COUNT": sum(map(prod, shapes)),
    }
    for module in (resnet50, network, gradients):
        for name, value in constants.items():
            if hasattr(module, name):
                change(module, name, value)
    change(resnet50.ResNet50Training, "shapes", shapes)


def _thin_layer(layer):
    return layer and Layer(*map(_thin, layer))


def _thin(number):
    """A number of channels; the images' three, classes, kernels and strides stay."""
    return number // NARROWER if number % 64 == 0 else number
