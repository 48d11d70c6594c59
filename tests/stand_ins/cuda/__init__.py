"""A simulated CUDA device, for a torch that is built without CUDA.

Its tensors are host tensors, so its times and rates are the CPU's and no GPU's. It is strict where
a device is strict and the CPU is not:

- a graph knows addresses only: one that reads freed memory loses the context, and every call after
  that fails;
- what waits for the device or copies from it can't be captured;
- an event has no time before it was recorded, nor before the device got there;
- memory has a limit, and what is over it is an error;
- each fused attention kernel takes its own dtypes.

Triton's kernels run in its interpreter, where triton is installed.
"""

import os

import torch

from tests.stand_ins.cuda.gpu import GPUS, SimulatedGpu
from tests.stand_ins.cuda.torch_cuda import installed

__all__ = ["GPUS", "REAL_DEVICE", "SimulatedGpu", "installed"]

REAL_DEVICE = torch.cuda.is_available()  # before anything is simulated

if not REAL_DEVICE:  # kernels that are defined from now on, unless the environment decides
    os.environ.setdefault("TRITON_INTERPRET", "1")
