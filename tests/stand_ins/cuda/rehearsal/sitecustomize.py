"""Python imports this at its start where this folder is on its path: torch then sees a GPU.

Not pytest, whose tests simulate their own.
"""

import atexit
import os
import sys

if not {"pytest", "pip"} & set(sys.orig_argv) and not any(
    "resource_tracker" in word for word in sys.orig_argv
):
    from batchmark_job.workloads.support import triton_filters
    from tests.stand_ins.cuda import installed

    # A small cache is filled by few inputs, and so few graphs are captured.
    simulated = installed(os.environ["BATCHMARK_SIMULATED_GPU"], cache_bytes=2**16)
    simulated.__enter__()
    atexit.register(simulated.__exit__, None, None, None)
    triton_filters.missing = lambda: "simulated: its interpreter is too slow for a row"
    if any("forkserver" in word for word in sys.orig_argv):
        # A simulated operation needs it; each of the server's forks would import it, for 0.6 s.
        import torch._dynamo  # noqa: F401
