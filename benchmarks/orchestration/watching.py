"""Counts what it costs to watch 1,000 Batch jobs, with our trigger and with the provider's.

First our trigger and then the provider's watches 1,000 jobs in one process, as in Airflow's
triggerer; both sets of jobs are equally long, run on one local cloud, and are polled at the same
interval. The local cloud records each call and who made it. Prints DescribeJobs calls per job, how
late the jobs' ends were seen, and the watching process's time. Each job's figures go to
`build/bench-watching/<contender>.csv`.

Exits with 1 unless our calls are at most 1/20 of the provider's, and we saw every job's end within
two intervals. Takes about 10 minutes.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from batchmark.aws.batch_jobs import describe_jobs
from benchmarks.orchestration.short_jobs import define_sleep, stack_in
from laptop.aws import AwsClients
from laptop.stack import ROOT, Stack, clean_environment

FOLDER = ROOT / "build" / "bench-watching"
CLAIMED_SHARE = 1 / 20
CLAIMED_INTERVALS = 2
OURS, PROVIDERS = "batchmark", "provider"


@dataclass(frozen=True)
class Watched:
    """What one contender's process did; times in seconds."""

    calls: int
    late: Mapping[str, float]  # by job id: from its end, or the watch's start, until it was seen
    wall_seconds: float
    cpu_seconds: float

    @property
    def calls_per_job(self) -> float:
        return self.calls / len(self.late)


class UnseenError(Exception):
    """A watching process missed the end of a job."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--interval", type=int, default=10, help="seconds (default: 10)")
    parser.add_argument(
        "--seconds", nargs=2, type=int, default=(120, 210), help="shortest and longest job's"
    )
    arguments = parser.parse_args()
    lengths = spread(arguments.jobs, *arguments.seconds)
    with stack_in(FOLDER, arguments.jobs) as stack, closing(AwsClients(stack)) as aws:
        shutil.rmtree(FOLDER / "logs", ignore_errors=True)
        stack.start_cloud()
        results = {
            name: watched(stack, aws, name, lengths, arguments.interval)
            for name in (OURS, PROVIDERS)
        }
    console = Console()
    console.print(table(results, arguments.interval))
    missed = missed_claims(results, arguments.interval)
    for claim in missed:
        console.print(f"MISSED: {claim}")
    return 1 if missed else 0


def spread(count: int, shortest: int, longest: int) -> list[int]:
    """`count` lengths in seconds, evenly spaced from the shortest up to the longest."""
    return [shortest + (longest - shortest) * number // count for number in range(count)]


def watched(
    stack: Stack, aws: AwsClients, contender: str, lengths: Sequence[int], interval: int
) -> Watched:
    """Submit the jobs and have one contender's process watch them."""
    batch = aws.client("batch")
    queue, definition = new_queue(batch, aws.client("ec2"), contender), define_sleep(batch)
    ids = [
        batch.submit_job(
            jobName=f"{contender}-{number}",
            jobQueue=queue,
            jobDefinition=definition,
            parameters={"seconds": str(seconds)},
        )["jobId"]
        for number, seconds in enumerate(lengths)
    ]
    stack.say(f"{contender}: {len(ids)} jobs submitted, watching")
    began = time.time()
    seen = watch(stack, contender, ids, interval)
    ended = stopped_times(batch, ids)
    late = {job_id: seen["seen"][job_id] - max(ended[job_id], began) for job_id in ids}
    write_csv(FOLDER / f"{contender}.csv", ended, seen["seen"], late)
    stack.say(f"{contender}: all ends seen")
    calls = describe_calls(stack.calls.read_text().splitlines(), contender)
    return Watched(calls, late, seen["wall_seconds"], seen["cpu_seconds"])


def watch(stack: Stack, contender: str, ids: Sequence[str], interval: int) -> dict[str, Any]:
    """Run benchmarks/orchestration/triggerer.py on the jobs; return what it prints.

    Raises:
        UnseenError: it failed, or missed a job.
    """
    environment = clean_environment() | stack.aws_as(contender)
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.orchestration.triggerer", contender, str(interval)],
        cwd=ROOT,
        env={
            **environment,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}:{ROOT / 'job_container'}",
            "AIRFLOW_HOME": str(FOLDER / "airflow"),
        },
        input=json.dumps(ids),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise UnseenError(f"the {contender} process ended with exit code {ended.returncode}")
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    if unseen := set(ids) - set(answer["seen"]):
        raise UnseenError(f"{contender}: {len(unseen)} of {len(ids)} ends were never seen")
    return answer


def new_queue(batch: Any, ec2: Any, name: str) -> str:
    """A queue on the default network, with a compute environment of its own."""
    groups = ec2.describe_security_groups()["SecurityGroups"]
    environment = batch.create_compute_environment(
        computeEnvironmentName=name,
        type="MANAGED",
        computeResources={
            "type": "FARGATE",
            "maxvCpus": 1,
            "subnets": [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]],
            "securityGroupIds": [group["GroupId"] for group in groups],
        },
    )["computeEnvironmentArn"]
    answer: dict[str, str] = batch.create_job_queue(
        jobQueueName=name,
        priority=1,
        state="ENABLED",
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
    )
    return answer["jobQueueArn"]


def stopped_times(batch: Any, ids: Sequence[str]) -> dict[str, float]:
    described = describe_jobs(batch, ids)
    return {job_id: job["stoppedAt"] / 1000 for job_id, job in described.items()}


def describe_calls(lines: Sequence[str], principal: str) -> int:
    """How many of the recorded calls are DescribeJobs of one principal, failed ones included."""
    calls = [json.loads(line) for line in lines]
    return sum(
        call["access_key_id"] == principal and call["operation"] == "DescribeJobs" for call in calls
    )


def missed_claims(results: Mapping[str, Watched], interval: float) -> list[str]:
    ours, providers = results[OURS], results[PROVIDERS]
    missed = []
    share = ours.calls_per_job / providers.calls_per_job
    if share > CLAIMED_SHARE:
        missed.append(f"calls a job are {share:.3f} of the provider's, over {CLAIMED_SHARE:.3f}")
    over = [late for late in ours.late.values() if late > CLAIMED_INTERVALS * interval]
    if over:
        missed.append(
            f"{len(over)} ends were seen later than {CLAIMED_INTERVALS * interval:g} s, the "
            f"latest after {max(over):.1f} s"
        )
    return missed


def table(results: Mapping[str, Watched], interval: int) -> Table:
    jobs = len(results[OURS].late)
    result = Table(title=f"{jobs:,} jobs in one process, asking every {interval} s")
    columns = ("trigger", "DescribeJobs", "a job", "seen after", "at most", "wall", "CPU")
    for column in columns:
        result.add_column(column, justify="left" if column == "trigger" else "right")
    for name, each in results.items():
        late = each.late.values()
        result.add_row(
            name,
            f"{each.calls:,}",
            f"{each.calls_per_job:.3f}",
            f"{median(late):.1f} s",
            f"{max(late):.1f} s",
            f"{each.wall_seconds:.0f} s",
            f"{each.cpu_seconds:.1f} s",
        )
    return result


def write_csv(
    path: Path, ended: Mapping[str, float], seen: Mapping[str, float], late: Mapping[str, float]
) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("job_id", "ended", "seen", "late_seconds"))
        writer.writerows((job, ended[job], seen[job], round(late[job], 3)) for job in late)


if __name__ == "__main__":
    sys.exit(main())
