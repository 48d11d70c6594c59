"""Imports the modules that the fork server loads once for all workers.

Nothing here may start threads or CUDA: neither survives a fork.
"""

import gc
from datetime import UTC, datetime

import cv2  # noqa: F401
import scipy.fft
import scipy.ndimage  # noqa: F401
import torch.utils.serialization.config  # noqa: F401

from batchmark_job.machine import inventory, memory, threads  # noqa: F401
from batchmark_job.measuring import ceilings, entry, prepared  # noqa: F401
from batchmark_job.workloads import builtin  # noqa: F401

LOADED_AT = datetime.now(UTC)

threads.find_pools()
memory.keep_freed_memory()
gc.collect()
gc.freeze()  # otherwise each worker's first collection would copy all of torch's pages
