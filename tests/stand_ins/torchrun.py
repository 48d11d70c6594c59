"""torchrun without torch: each rank does what a file in the task's folder says.

`rank-N` holds fail, late, die, complain or hang; a rank without one answers. As with torchrun, all
ranks of a node end when one fails. It writes its JSON itself, which the job reads strictly: the
job's own records would take three quarters of its time to import.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

# As torchrun ends its own.
SUMMARY = """Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_06:00:00
  host      : node
  rank      : {rank} (local_rank: 0)
  exitcode  : -9 (pid: 1)"""


def failed(answer: Path, *, rank: int, lost_another: bool = False, **told: object) -> None:
    error = {"rank": rank, "lost_another": lost_another, **told}
    answer.with_name(f"{rank}.error").write_text(json.dumps(error))


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("nnodes", "nproc-per-node", "max-restarts"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("rdzv-backend", "rdzv-endpoint", "rdzv-conf", "log-dir", "tee", "module"):
        parser.add_argument(f"--{name}")
    arguments = parser.parse_args()
    folder = Path(json.loads(Path(os.environ["BATCHMARK_TASK"]).read_bytes())["folder"])
    answer = Path(os.environ["BATCHMARK_ANSWER"])
    settings = dict(each.split("=") for each in arguments.rdzv_conf.split(","))
    first = int(settings["rank"]) * arguments.nproc_per_node
    nccl = os.environ["NCCL_SOCKET_IFNAME"]
    print(f"ranks from {first} by {arguments.rdzv_endpoint}, NCCL at {nccl}", flush=True)
    for rank in range(first, first + arguments.nproc_per_node):
        file = folder / f"rank-{rank}"
        does = file.read_text() if file.exists() else ""
        if does == "late":
            time.sleep(0.7)
            does = "fail"
        if does == "fail":
            failed(answer, at=time.time(), rank=rank, error="its shard has no end")
            return 1
        if does == "die":
            print(SUMMARY.format(rank=rank), flush=True)
            return 1
        if does == "complain":  # as the neighbour of one that was killed
            failed(answer, at=0.0, rank=rank, error="another rank is gone", lost_another=True)
            if not (folder / f"rank-{rank + 1}").exists():
                return 1
        if does == "hang":
            (folder / f"pid-{rank}").write_text(str(os.getpid()))
            signal.pause()
    if first == 0:
        now = time.perf_counter()
        made = {
            "implementation": {"name": "stand-in", "version": "1"},
            "cold_seconds": 0.5,
            "samples_seconds": (0.1, 0.2, 0.1, 0.1),
            "starts": (now, now + 0.1, now + 0.3, now + 0.4, now + 0.5),
            "warmup_calls": 1,
            "correctness": {"relative_error": 0.0, "tolerance": 1.0},
            "bytes_moved": 1000,
        }
        answer.write_text(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
