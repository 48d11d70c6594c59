"""Scaled dot-product attention and its gradients, with every query attending to every key."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES, Axis, Implementation, Workload
from batchmark_job.workloads.support import reference, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.reference import Float64Array
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

# Queries, keys, values, the output and its gradient, the three gradients and their packed copy, and
# one gradient's sum in float32, which is twice as large as a 16-bit one.
TENSORS = 13
QUERY_BLOCK = 512  # rows of the score matrix that the reference holds at a time


class TorchAttention(TorchImplementation):
    """Torch's scaled dot-product attention, using `kernel` or, if it is None, torch's choice."""

    name = "torch sdpa"
    kernel: ClassVar[str | None] = None  # of torch.nn.attention.SDPBackend

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for the larger (backward) pass, plus a tenth for score blocks."""
        packed = TENSORS * _tensor_bytes(parameters, dtype)
        return packed + packed // 10

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        import torch.nn.functional as F  # noqa: N812
        from torch.nn.attention import SDPBackend, sdpa_kernel

        if self.kernel is None:
            return F.scaled_dot_product_attention(queries, keys, values)
        with sdpa_kernel(getattr(SDPBackend, self.kernel)):
            return F.scaled_dot_product_attention(queries, keys, values)

    def prepare(self, inputs: Tensors) -> Call:
        """Prepare the forward pass or, if a gradient is among the inputs, the backward pass.

        All gradients end up in one tensor, as needed by a joint projection to queries, keys and
        values. No kernel writes them there directly, so torch copies them.
        """
        import torch

        if len(inputs) == 1:
            queries, keys, values = inputs[0]
            return lambda: self.attend(queries, keys, values)
        packed, gradient = inputs[0].detach().requires_grad_(), inputs[1]
        output = self.attend(*packed)
        return lambda: torch.autograd.grad(output, packed, gradient, retain_graph=True)[0]


class FlashAttention(TorchAttention):
    name = "torch sdpa flash"
    devices = ("cuda",)
    dtypes = ("float16", "bfloat16")
    kernel = "FLASH_ATTENTION"


class EfficientAttention(TorchAttention):
    name = "torch sdpa memory-efficient"
    devices = ("cuda",)
    dtypes = ("float32", "tf32", "float16", "bfloat16")
    kernel = "EFFICIENT_ATTENTION"


class CudnnAttention(FlashAttention):
    name = "torch sdpa cudnn"
    kernel = "CUDNN_ATTENTION"


class ExplicitAttention(TorchAttention):
    """Two matrix products with a softmax in between, keeping the scores in memory."""

    name = "torch matmul and softmax"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory needed, including the scores, the weights and the gradients of both."""
        scores = 4 * _tokens(parameters) * parameters["sequence"] * DTYPE_BYTES[dtype]
        return scores + super().working_set_bytes(parameters, dtype)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # Scaling the queries is cheaper than scaling the scores.
        scores = queries * queries.shape[-1] ** -0.5 @ keys.transpose(-1, -2)
        weights: Tensor = scores.softmax(dim=-1)
        return weights @ values


class _Attention(Workload):
    axes = (
        Axis("sequence", minimum=1, maximum=1_048_576),
        Axis("heads", minimum=1, maximum=1_024, default=8),
        Axis("head_dim", minimum=1, maximum=1_024, default=64),
        Axis("batch", minimum=1, maximum=65_536, default=1),
    )
    implementations: tuple[Implementation, ...] = (
        TorchAttention(),
        ExplicitAttention(),
        FlashAttention(),
        EfficientAttention(),
        CudnnAttention(),
        CudaGraph(TorchAttention()),
        CudaGraph(EfficientAttention()),
        CudaGraph(ExplicitAttention()),
    )
    tensors_read: ClassVar[int]
    tensors_written: ClassVar[int]

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return self.tensors_read * _tensor_bytes(parameters, dtype)

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        return self.tensors_written * _tensor_bytes(parameters, dtype)


class AttentionForward(_Attention):
    name = "attention_forward"
    summary = "softmax(Q Kᵀ / √head_dim) V, without a mask"
    tensors_read, tensors_written = 3, 1

    def flops(self, parameters: Parameters) -> int:
        """Count the operations in two matrix products, but not in the softmax."""
        return 2 * _product_flops(parameters)

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        """Make queries, keys and values in one tensor, as a joint projection would."""
        return torch_calls.normal([(3, *_shape(parameters))], dtype, seed)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Check two heads against the reference: the last one and a random one."""
        return reference.relative_error(
            (
                reference.to_float64(output[head]),
                _forward(reference.to_float64(inputs[0][:, *head])),
            )
            for head in _some_heads(output, rng)
        )


class AttentionBackward(_Attention):
    name = "attention_backward"
    summary = "gradients of attention, copied into one packed tensor; the forward pass is not timed"
    needs_gradients = True
    tensors_read, tensors_written = 4, 3

    def flops(self, parameters: Parameters) -> int:
        """Count four matrix products, ignoring the fifth in kernels that recompute the scores."""
        return 4 * _product_flops(parameters)

    def bytes_moved(self, parameters: Parameters, dtype: str) -> int:
        """Return the bytes moved, including those for packing the gradients afterwards."""
        return self.input_bytes(parameters, dtype) + 3 * self.output_bytes(parameters, dtype)

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        """Make queries, keys and values in one tensor, and the output's gradient in another."""
        shape = _shape(parameters)
        return torch_calls.normal([(3, *shape), shape], dtype, seed)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Check all three gradients of two heads, each relative to its own largest value."""
        packed, gradient = inputs
        errors = [
            reference.relative_error([pair])
            for head in _some_heads(gradient, rng)
            for pair in zip(
                reference.to_float64(output[:, *head]),
                _backward(
                    reference.to_float64(packed[:, *head]), reference.to_float64(gradient[head])
                ),
                strict=True,
            )
        ]
        return float(np.max(errors))


def _shape(parameters: Parameters) -> tuple[int, int, int, int]:
    batch, heads = parameters["batch"], parameters["heads"]
    return (batch, heads, parameters["sequence"], parameters["head_dim"])


def _tokens(parameters: Parameters) -> int:
    return parameters["batch"] * parameters["heads"] * parameters["sequence"]


def _tensor_bytes(parameters: Parameters, dtype: str) -> int:
    """Return the size of a single tensor: queries, keys, values or output."""
    return _tokens(parameters) * parameters["head_dim"] * DTYPE_BYTES[dtype]


def _product_flops(parameters: Parameters) -> int:
    return 2 * _tokens(parameters) * parameters["sequence"] * parameters["head_dim"]


def _some_heads(output: Tensor, rng: np.random.Generator) -> list[tuple[int, int]]:
    batch, heads = output.shape[:2]
    return [(batch - 1, heads - 1), (int(rng.integers(batch)), int(rng.integers(heads)))]


def _softmax(queries: Float64Array, keys: Float64Array) -> Float64Array:
    scores = queries @ keys.T / np.sqrt(queries.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _forward(packed: Float64Array) -> Float64Array:
    queries, keys, values = packed
    output: Float64Array = np.empty_like(queries)
    for start in range(0, len(queries), QUERY_BLOCK):
        block = slice(start, start + QUERY_BLOCK)
        output[block] = _softmax(queries[block], keys) @ values
    return output


def _backward(packed: Float64Array, gradient: Float64Array) -> Float64Array:
    """Compute the gradients of queries, keys and values using the chain rule."""
    queries, keys, values = packed
    scale = queries.shape[1] ** -0.5
    gradients: Float64Array = np.zeros_like(packed)
    to_queries, to_keys, to_values = gradients
    for start in range(0, len(queries), QUERY_BLOCK):
        block = slice(start, start + QUERY_BLOCK)
        weights = _softmax(queries[block], keys)
        to_weights = gradient[block] @ values.T
        mean = (weights * to_weights).sum(axis=1, keepdims=True)
        to_scores = weights * (to_weights - mean) * scale
        to_queries[block] = to_scores @ keys
        to_keys += to_scores.T @ queries[block]
        to_values += weights.T @ gradient[block]
    return gradients
