"""torchrun without torch: each rank does what a file in the task's folder says.

`rank-N` holds fail, late, die, complain or hang; a rank without one answers. As with torchrun, all
ranks of a node end when one fails.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from batchmark_job.distributed.task import (
    ANSWER_VARIABLE,
    ERROR_SUFFIX,
    TASK,
    TASK_VARIABLE,
    Answer,
    RankError,
)
from batchmark_job.result.document import Correctness, Implementation

# As torchrun ends its own.
SUMMARY = """Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_06:00:00
  host      : node
  rank      : {rank} (local_rank: 0)
  exitcode  : -9 (pid: 1)"""


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("nnodes", "nproc-per-node", "max-restarts"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("rdzv-backend", "rdzv-endpoint", "rdzv-conf", "log-dir", "tee", "module"):
        parser.add_argument(f"--{name}")
    arguments = parser.parse_args()
    task = TASK.validate_json(Path(os.environ[TASK_VARIABLE]).read_bytes())
    answer = Path(os.environ[ANSWER_VARIABLE])
    settings = dict(each.split("=") for each in arguments.rdzv_conf.split(","))
    first = int(settings["rank"]) * arguments.nproc_per_node
    nccl = os.environ["NCCL_SOCKET_IFNAME"]
    print(f"ranks from {first} by {arguments.rdzv_endpoint}, NCCL at {nccl}", flush=True)
    for rank in range(first, first + arguments.nproc_per_node):
        file = task.folder / f"rank-{rank}"
        does = file.read_text() if file.exists() else ""
        if does == "late":
            time.sleep(0.7)
            does = "fail"
        if does == "fail":
            error = RankError(
                at=time.time(), rank=rank, error="its shard has no end", lost_another=False
            )
            answer.with_name(f"{rank}{ERROR_SUFFIX}").write_text(error.model_dump_json())
            return 1
        if does == "die":
            print(SUMMARY.format(rank=rank), flush=True)
            return 1
        if does == "complain":  # as the neighbour of one that was killed
            error = RankError(at=0.0, rank=rank, error="another rank is gone", lost_another=True)
            answer.with_name(f"{rank}{ERROR_SUFFIX}").write_text(error.model_dump_json())
            if not (task.folder / f"rank-{rank + 1}").exists():
                return 1
        if does == "hang":
            (task.folder / f"pid-{rank}").write_text(str(os.getpid()))
            signal.pause()
    if first == 0:
        now = time.perf_counter()
        made = Answer(
            implementation=Implementation(name="stand-in", version="1"),
            cold_seconds=0.5,
            samples_seconds=(0.1, 0.2, 0.1, 0.1),
            starts=(now, now + 0.1, now + 0.3, now + 0.4, now + 0.5),
            warmup_calls=1,
            correctness=Correctness(relative_error=0.0, tolerance=1.0),
            bytes_moved=1000,
        )
        answer.write_text(made.model_dump_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
