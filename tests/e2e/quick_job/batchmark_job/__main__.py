"""The real program with a small suite `smoke` and short limits."""

import sys
from dataclasses import replace

from batchmark_job.interruption import Interruption

if __name__ == "__main__":
    interruption = Interruption()
    interruption.watch()
    # Only now, as in the real program.
    from batchmark_job.command_line import main
    from batchmark_job.suites import SUITES, Grid

    grids = (
        Grid("matmul", {"size": (64, 128)}),
        Grid("gaussian_blur", {"size": (64, 128)}),
        Grid("edge_detection", {"size": (64, 128)}),
        Grid("fft", {"size": (64, 128)}),
        Grid("sort", {"size": (1_000, 10_000)}),
        Grid("reduction", {"size": (10_000, 100_000)}),
        Grid("attention_forward", {"sequence": (32, 64)}),
    )
    SUITES["smoke"] = replace(
        SUITES["smoke"],
        # Starting more would take longer than all that they measure.
        limits=replace(SUITES["smoke"].limits, processes=1),
        # No report compares a job of no run: that it measured is what counts.
        grids=grids[:1] if "manual" in sys.argv else grids,
    )
    # A suite of two rows may take its time, should the machine be so busy that few samples say
    # nothing. Threads that wait for each other would wait for the other tests, too.
    seconds = "1" if "own" in sys.argv else "0.05"
    quickly = ["--max-seconds", seconds, "--precision", "0.5", "--no-ceilings", "--threads", "1"]
    sys.exit(main([*sys.argv[1:], *quickly], interruption))
