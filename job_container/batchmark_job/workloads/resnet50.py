"""ResNet-50 on 224 x 224 images: inference and a training step.

The architecture is version 1.5 of https://arxiv.org/abs/1512.03385, in which each stage's stride is
in the 3 x 3 convolution of its first block. It has 25,557,032 weights and takes 4.09 billion
multiply-adds per image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES, Axis, Workload
from batchmark_job.workloads.support import compiled, images, reference, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.support.training import TrainingStep, initial_weights, views
from batchmark_job.workloads.tensors import Call, Network, Parameters, Shape, Tensor, Tensors

Unit = Network

IMAGE_SIZE = 224  # the paper's, like the next
CLASSES = 1000
WEIGHT_COUNT = 25_557_032
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and number of blocks
EXPANSION = 4  # a block's outputs relative to its width, also the paper's
CHECKED_IMAGES = 2  # the last one and one at random; float64 on the CPU is slow
EPSILON = 1e-5  # like the next: torch's default for batch normalisation
STATISTICS_MOMENTUM = 0.1


class Layer(NamedTuple):
    """A convolution without bias, followed by batch normalisation."""

    inputs: int
    outputs: int
    kernel: int
    stride: int = 1

    @property
    def shape(self) -> Shape:
        return (self.outputs, self.inputs, self.kernel, self.kernel)


class Block(NamedTuple):
    """Three layers and a parallel shortcut, which includes a layer if the shape changes."""

    reduce: Layer
    spatial: Layer
    expand: Layer
    shortcut: Layer | None

    def layers(self) -> list[Layer]:
        return [layer for layer in self if layer is not None]


def _blocks() -> Iterator[Block]:
    inputs = STEM.outputs
    for stage, (width, count) in enumerate(STAGES):
        outputs = EXPANSION * width
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            yield Block(
                Layer(inputs, width, 1),
                Layer(width, width, 3, stride),
                Layer(width, outputs, 1),
                Layer(inputs, outputs, 1, stride) if index == 0 else None,
            )
            inputs = outputs


STEM = Layer(images.CHANNELS, 64, 7, 2)
BLOCKS = tuple(_blocks())
LAYERS = (STEM, *chain.from_iterable(block.layers() for block in BLOCKS))
FEATURES = EXPANSION * STAGES[-1][0]

# Each layer's kernel, scale and shift, then the classifier's matrix and bias.
SHAPES: tuple[Shape, ...] = (
    *chain.from_iterable((layer.shape, (layer.outputs,), (layer.outputs,)) for layer in LAYERS),
    (CLASSES, FEATURES),
    (CLASSES,),
)
# Each layer's running mean and variance.
STATISTICS_SHAPES: tuple[Shape, ...] = tuple((layer.outputs,) for layer in LAYERS for _ in range(2))


def layer_outputs() -> list[tuple[Layer, int]]:
    """Return each layer along with its number of outputs per image."""
    size = IMAGE_SIZE // STEM.stride
    found = [(STEM, STEM.outputs * size**2)]
    size //= 2  # max-pooling
    for block in BLOCKS:
        for layer in block.layers():
            after = size if layer is block.reduce else size // block.spatial.stride
            found.append((layer, layer.outputs * after**2))
        size //= block.spatial.stride
    return found


def multiply_adds() -> int:
    """Count the multiply-adds in one image's forward pass, in convolutions and the classifier."""
    return CLASSES * FEATURES + sum(
        numbers * math.prod(layer.shape[1:]) for layer, numbers in layer_outputs()
    )


def convolution(layer: Layer, weight: Tensor, bias: Tensor | None = None) -> Unit:
    import torch.nn.functional as F  # noqa: N812

    return lambda batch: F.conv2d(
        batch, weight, bias, stride=layer.stride, padding=layer.kernel // 2
    )


def normalised(
    layer: Layer, parameters: Sequence[Tensor], statistics: Sequence[Tensor], *, training: bool
) -> Unit:
    import torch.nn.functional as F  # noqa: N812

    (weight, scale, shift), (mean, variance) = parameters, statistics
    convolve = convolution(layer, weight)
    return lambda batch: F.batch_norm(
        convolve(batch), mean, variance, scale, shift, training, STATISTICS_MOMENTUM, EPSILON
    )


def folded(layer: Layer, parameters: Sequence[Tensor], statistics: Sequence[Tensor]) -> Unit:
    """Fold the normalisation into the convolution, which is possible only for inference."""
    (weight, scale, shift), (mean, variance) = parameters, statistics
    factor = scale * (variance + EPSILON).rsqrt()
    kernel = images.channels_last(weight * factor[:, None, None, None])
    return convolution(layer, kernel, shift - mean * factor)


def _in_groups(tensors: Sequence[Tensor], size: int) -> list[Sequence[Tensor]]:
    return [tensors[start : start + size] for start in range(0, size * len(LAYERS), size)]


def build(
    parameters: Sequence[Tensor],
    statistics: Sequence[Tensor],
    unit: Callable[[Layer, Sequence[Tensor], Sequence[Tensor]], Unit],
) -> Network:
    """Build the network that maps images to logits; `unit` builds a layer and its normalisation."""
    import torch.nn.functional as F  # noqa: N812

    count = sum(map(math.prod, SHAPES))
    if count != WEIGHT_COUNT:  # a different network must not be measured under this name
        raise AssertionError(f"this ResNet-50 has {count:,} weights instead of {WEIGHT_COUNT:,}")
    grouped = zip(LAYERS, _in_groups(parameters, 3), _in_groups(statistics, 2), strict=True)
    units = [unit(*parts) for parts in grouped]
    *_, matrix, bias = parameters

    def forward(batch: Tensor) -> Tensor:
        left = iter(units)
        batch = F.max_pool2d(next(left)(batch).relu_(), 3, stride=2, padding=1)
        for block in BLOCKS:
            branch = next(left)(batch).relu_()
            branch = next(left)(branch).relu_()
            branch = next(left)(branch)
            batch = branch.add_(next(left)(batch) if block.shortcut else batch).relu_()
        return F.linear(batch.mean(dim=(2, 3)), matrix, bias)

    return forward


class TorchResNet50(TorchImplementation):
    """Runs torch layer by layer, with oneDNN on the CPU and cuDNN on CUDA."""

    name = "torch channels-last"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for two input sets, the output, and four times the largest activation.

        For float64, which oneDNN lacks, torch's unfolded neighbourhoods take less than three times
        the largest activation.
        """
        largest = max(numbers for _, numbers in layer_outputs())
        activations = parameters["batch"] * largest * (7 if dtype == "float64" else 4)
        return (
            2 * INFERENCE.input_bytes(parameters, dtype)
            + INFERENCE.output_bytes(parameters, dtype)
            + activations * DTYPE_BYTES[dtype]
        )

    def arrange(self, inputs: Tensors) -> Tensors:
        return (images.channels_last(inputs[0]), *inputs[1:])

    def network(self, weights: Tensor, statistics: Tensor) -> Network:
        return inference(weights, statistics)

    def prepare(self, inputs: Tensors) -> Call:
        batch, *weights = inputs
        forward = self.network(*weights)

        def call() -> Tensor:
            with torch_calls.cudnn_search():
                return forward(batch)

        return call


class FoldedResNet50(TorchResNet50):
    """ResNet-50 with batch normalisation folded into the convolutions."""

    name = "torch channels-last, normalisation folded"

    def network(self, weights: Tensor, statistics: Tensor) -> Network:
        return _build_flat(weights, statistics, folded)


class CompiledResNet50(compiled.Compiled, FoldedResNet50):
    """The folded network, compiled by torch.compile."""

    name = "torch channels-last, normalisation folded, compiled"

    def network(self, weights: Tensor, statistics: Tensor) -> Network:
        return compiled.compile_network(super().network(weights, statistics))


class ResNet50Inference(Workload):
    name = "resnet50_inference"
    summary = "ResNet-50 inference on a batch of 224 x 224 images"
    axes = (Axis("batch", minimum=1, maximum=65_536),)
    implementations = (
        FoldedResNet50(),
        TorchResNet50(),
        CudaGraph(FoldedResNet50()),
        CompiledResNet50(),
    )
    # Rounding errors grow over 53 layers; tf32 and float16 keep 10 bits, bfloat16 keeps 7.
    tolerances: ClassVar[Mapping[str, float]] = {
        "float64": 1e-11,
        "float32": 1e-4,
        "tf32": 4e-2,
        "bfloat16": 1e-1,
        "float16": 2e-2,
    }

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        pixels = parameters["batch"] * images.CHANNELS * IMAGE_SIZE**2
        statistics = sum(map(math.prod, STATISTICS_SHAPES))
        return (pixels + WEIGHT_COUNT + statistics) * DTYPE_BYTES[dtype]

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        return parameters["batch"] * CLASSES * DTYPE_BYTES[dtype]

    def flops(self, parameters: Parameters) -> int:
        """Count two operations per multiply-add in the convolutions and the classifier alone."""
        return 2 * parameters["batch"] * multiply_adds()

    def items(self, parameters: Parameters) -> int:
        return parameters["batch"]

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        """Make images, all weights, and all running means and variances."""
        shape = (parameters["batch"], images.CHANNELS, IMAGE_SIZE, IMAGE_SIZE)
        (batch,) = torch_calls.normal([shape], dtype, seed)
        statistics_shape = (sum(map(math.prod, STATISTICS_SHAPES)),)
        statistics = torch_calls.uniform([statistics_shape], dtype, seed + 1, low=0.5)
        return (batch, initial_weights(SHAPES, dtype, seed + 2), *statistics)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Compare up to two images' logits with those of a float64 network without folding."""
        import torch

        batch, *weights = inputs
        count = batch.shape[0]
        chosen = sorted({count - 1, *rng.integers(count, size=CHECKED_IMAGES - 1).tolist()})
        with torch.inference_mode():
            forward = inference(*(tensor.cpu().double() for tensor in weights))
            expected = forward(batch[chosen].cpu().double().contiguous())
        return reference.relative_error(
            [(reference.to_float64(output[chosen]), reference.to_float64(expected))]
        )


class ResNet50Training(TrainingStep):
    name = "resnet50_training"
    summary = "ResNet-50 training step on a batch of 224 x 224 images, with SGD"
    image_size = IMAGE_SIZE
    distinct: ClassVar[int] = 2
    # Normalisation over few images amplifies rounding: with 2 images, float32 was seen to be off
    # by 7e-4 and bfloat16 by 3e-2.
    tolerances: ClassVar[Mapping[str, float]] = {
        "float64": 1e-9,
        "float32": 5e-3,
        "tf32": 5e-2,
        "bfloat16": 2e-1,
        "float16": 1e-1,
    }
    shapes = SHAPES

    def network(self, parameters: Sequence[Tensor]) -> Network:
        statistics = [parameters[0].new_ones(shape) for shape in STATISTICS_SHAPES]
        return build(parameters, statistics, partial(normalised, training=True))

    def activations(self, parameters: Parameters) -> int:
        return parameters["batch"] * (CLASSES + sum(numbers for _, numbers in layer_outputs()))

    def flops(self, parameters: Parameters) -> int:
        """Count two operations per multiply-add in the forward pass and each layer's two gradients.

        The images need no gradient. Normalisation, ReLU, pooling, loss and update are not counted.
        """
        stem = math.prod(STEM.shape[1:]) * layer_outputs()[0][1]
        return 2 * parameters["batch"] * (3 * multiply_adds() - stem)


def inference(weights: Tensor, statistics: Tensor) -> Network:
    """Build the network for inference, which normalises with running statistics."""
    return _build_flat(weights, statistics, partial(normalised, training=False))


def _build_flat(
    weights: Tensor,
    statistics: Tensor,
    unit: Callable[[Layer, Sequence[Tensor], Sequence[Tensor]], Unit],
) -> Network:
    """Build the network from flat weights (channels-last for convolutions) and flat statistics."""
    return build(
        views(weights, SHAPES, channels_last=True),
        views(statistics, STATISTICS_SHAPES, channels_last=True),
        unit,
    )


INFERENCE = ResNet50Inference()
