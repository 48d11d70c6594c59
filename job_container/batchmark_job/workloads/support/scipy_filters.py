"""What the SciPy implementations share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from batchmark_job.workloads.base import BufferedImplementation
from batchmark_job.workloads.support import images

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Parameters, Tensors


class ScipyFilter(BufferedImplementation):
    """An image filter of scipy.ndimage: one thread, sums in float64."""

    name = library = "scipy"
    devices = ("cpu",)
    dtypes = ("float32", "float64")
    single_threaded = True
    batches_written: ClassVar[int]  # the output and what is written on the way

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Input, and all that is written."""
        return (1 + self.batches_written) * images.batch_bytes(parameters, dtype)

    def buffers(self, inputs: Tensors) -> Tensors:
        import torch

        return tuple(torch.empty_like(inputs[0]) for _ in range(self.batches_written))
