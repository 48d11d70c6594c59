"""Products as tensor cores make them in tf32: of operands with 10 bits of mantissa."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from tests.stand_ins.cuda.gpu import SimulatedGpu

ATEN = torch.ops.aten
PRODUCTS = {
    ATEN.mm,
    ATEN.bmm,
    ATEN.addmm,
    ATEN.baddbmm,
    ATEN._scaled_dot_product_flash_attention_for_cpu,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward,
}
CONVOLUTIONS = {ATEN.convolution, ATEN.convolution_backward, ATEN.mkldnn_convolution}
FIRST = (8, 0)  # compute capability that has tf32
DROPPED_BITS = 13  # of float32's 23


class TensorCores(TorchDispatchMode):
    """Where torch's flags allow tf32 and the device has it, operands are rounded to nearest.

    `truncating` drops the bits instead, as some devices may.
    """

    def __init__(self, gpu: SimulatedGpu, *, truncating: bool = False) -> None:
        super().__init__()
        self._gpu, self._truncating = gpu, truncating

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with self:  # in inference mode, composite operations come here whole
            parts = operation.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        packet = operation.overloadpacket
        flags = torch.backends
        allowed = (packet in PRODUCTS and flags.cuda.matmul.allow_tf32) or (
            packet in CONVOLUTIONS and flags.cudnn.allow_tf32
        )
        if allowed and self._gpu.capability >= FIRST:
            args = tree_map_only(torch.Tensor, self._rounded, args)
        return operation(*args, **kwargs)

    def _rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.float32:
            return tensor
        bits = tensor.contiguous().view(torch.int32)
        half = 0 if self._truncating else 1 << (DROPPED_BITS - 1)
        kept = (bits + half) & -(1 << DROPPED_BITS)
        return kept.view(torch.float32)
