"""CUDA graphs: a capture records operations with addresses; a replay runs them on what is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.stand_ins.cuda.gpu import NOT_IN_A_CAPTURE, SimulatedGpu

ATEN = torch.ops.aten
# Their results are host values, so they wait for the device.
WAITING = {
    ATEN._local_scalar_dense.default,
    ATEN.equal.default,
    ATEN.is_nonzero.default,
    ATEN.nonzero.default,
    ATEN.masked_select.default,
}


class _Address:
    """Where a tensor lies; it keeps nothing alive."""

    def __init__(self, gpu: SimulatedGpu, tensor: torch.Tensor) -> None:
        self._gpu, self._dtype = gpu, tensor.dtype
        self._storage = StorageWeakRef(tensor.untyped_storage())
        self._view = tensor.storage_offset(), tensor.size(), tensor.stride()

    def tensor(self) -> torch.Tensor:
        """What lies there now; an illegal access where it was freed."""
        storage = torch.UntypedStorage._new_with_weak_ptr(self._storage.cdata)
        if storage is None:
            self._gpu.lose()
        return torch.empty(0, dtype=self._dtype).set_(storage, *self._view)


class Graph:
    """In place of torch.cuda.CUDAGraph."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self.nodes: list[tuple[Any, Any, Any]] = []
        self.stream: Any = None

    def record(self, operation: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = tree_map_only(
            torch.Tensor, lambda tensor: _Address(self._gpu, tensor), (args, kwargs)
        )
        self.nodes.append((operation, given, result))

    def replay(self) -> None:
        self._gpu.check()
        if self._gpu.capturing is not None:
            raise torch.AcceleratorError(NOT_IN_A_CAPTURE)
        for operation, given, results in self.nodes:
            args, kwargs = tree_map_only(_Address, _Address.tensor, given)
            fresh = operation(*args, **kwargs)
            for place, value in zip(_tensors(results), _tensors(fresh), strict=True):
                if place.data_ptr() != value.data_ptr():
                    place.copy_(value)

    @contextmanager
    def capture(self, stream: Any = None) -> Iterator[None]:
        self._gpu.wait()
        self.stream = stream
        with mock.patch.object(self._gpu, "capturing", self), _Capture(self, self._gpu):
            yield


class _Capture(TorchDispatchMode):
    """What runs within it is recorded, and what it allocates belongs to the graph."""

    def __init__(self, graph: Graph, gpu: SimulatedGpu) -> None:
        super().__init__()
        self._graph, self._gpu = graph, gpu

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operation in WAITING:
            raise torch.AcceleratorError(NOT_IN_A_CAPTURE)
        before = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        result = operation(*args, **kwargs)
        for tensor in _tensors(result):
            if tensor.untyped_storage()._cdata not in before:
                self._gpu.allocate(tensor)
        self._graph.record(operation, args, kwargs, result)
        return result


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
