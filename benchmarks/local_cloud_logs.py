"""Compares how fast the local cloud stores a job's output with how fast its lines can be copied.

The job prints 100 MiB in lines of 100 bytes, while its log is read page by page, the way `make
try-job` reads it. The reference reads the same lines from a pipe and writes them to a file.

Exits with 1 unless the job, with and without `--state`, takes at most 10 times as long as the
reference, and the server's memory grows by at most 64 MiB. Takes about a minute.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from benchmarks.synthetic import this_machine
from tests.clouds import FINISHED, Cloud, running

MIB = 2**20
PRINTED = 100 * MIB  # above MOST_MIB, so that output kept in memory would show
SCRIPT = f"yes {'x' * 99} | head -c {PRINTED}"
ROUNDS = 3  # judgment: one slow round doesn't move the median; all take about a minute
MOST_TIMES, MOST_MIB = 10.0, 64
GROUP = "/aws/batch/job"
POLL_SECONDS = 1.0  # as laptop/demo.py polls


class Taken(NamedTuple):
    seconds: float
    mib: float = 0.0  # of memory, on top of that before


def main() -> int:
    found: dict[str, list[Taken]] = {"line by line": [], "a job": [], "a job with --state": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            found["line by line"].append(line_by_line(Path(folder) / "printed"))
            found["a job"].append(by_the_local_cloud())
            state = Path(folder) / "state"
            state.mkdir()
            found["a job with --state"].append(by_the_local_cloud("--state", str(state)))
    usual = median(each.seconds for each in found["line by line"])
    missed = []
    for how, taken in found.items():
        seconds, mib = median(each.seconds for each in taken), max(each.mib for each in taken)
        rate = PRINTED / 1e6 / seconds
        print(
            f"{how}: {seconds:.2f} s, {rate:.0f} MB/s, {seconds / usual:.1f} times as long as "
            f"line by line, server memory grew by {mib:.0f} MiB"
        )
        if seconds > MOST_TIMES * usual:
            missed.append(f"{how} takes more than {MOST_TIMES:g} times as long as line by line")
        if mib > MOST_MIB:
            missed.append(f"{how} uses more than {MOST_MIB} MiB of memory")
    print(f"{this_machine()}; medians of {ROUNDS} alternating rounds")
    for text in missed:
        print(f"TARGET MISSED: {text}")
    return 1 if missed else 0


def line_by_line(file: Path) -> Taken:
    began = time.perf_counter()
    with (
        subprocess.Popen(["sh", "-c", SCRIPT], stdout=subprocess.PIPE) as process,
        file.open("wb") as copy,
    ):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        copy.writelines(process.stdout)
    return Taken(time.perf_counter() - began)


def by_the_local_cloud(*options: str) -> Taken:
    with running(*options) as cloud:
        server = psutil.Process(cloud.process.pid)
        before = most = server.memory_info().rss
        job_id = cloud.shell(SCRIPT)
        stream = cloud.wait_for(job_id, "RUNNING", "SUCCEEDED")["container"]["logStreamName"]
        token: dict[str, str] = {}
        while (job := cloud.describe(job_id))["status"] not in FINISHED:
            token = next_page(cloud, stream, token)
            most = max(most, server.memory_info().rss)
            time.sleep(POLL_SECONDS)
        assert job["status"] == "SUCCEEDED", job  # noqa: S101 - else there is nothing to tell
        return Taken((job["stoppedAt"] - job["startedAt"]) / 1000, (most - before) / MIB)


def next_page(cloud: Cloud, stream: str, token: dict[str, str]) -> dict[str, str]:
    logs = cloud.client("logs")
    logs.describe_log_streams(logGroupName=GROUP)
    page = logs.get_log_events(
        logGroupName=GROUP, logStreamName=stream, startFromHead=True, **token
    )
    return {"nextToken": page["nextForwardToken"]}


if __name__ == "__main__":
    sys.exit(main())
