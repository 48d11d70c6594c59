"""Networks compiled by torch.compile, which fuses the operations between matrix products."""

from __future__ import annotations

from batchmark_job.workloads.support import triton_filters, triton_stub
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Network


class Compiled(TorchImplementation):
    """Base class of implementations that use `compile_network`."""

    devices = ("cuda",)
    least_row_seconds = 10.0  # compiling takes tens of seconds in each job that tries it

    def refusal(self, device: str, dtype: str) -> str | None:
        return super().refusal(device, dtype) or triton_filters.missing()


def compile_network(network: Network) -> Network:
    """Return the network as one graph of fused kernels, compiled on its first call.

    It is compiled in this process, because helper processes would outlive the worker or be stopped
    with it.
    """
    import torch
    import torch._inductor.config

    triton_stub.install()
    torch._inductor.config.compile_threads = 1
    graph: Network = torch.compile(network, fullgraph=True, dynamic=False)
    return graph
