"""A benchmark job that measures nothing and does as it is told, for the matrix of faults.

Its instructions are a JSON file named after the run: `gate` is a file to wait for before the
document is written, `document` one that `text_of` makes or `none`, `linger` a file to wait for
afterwards, and `exit_code` how to end. What is not said: no waiting, a valid document, 0.

`checkpoint_mib` is how much to write to the file system that it reads images from, after the gate.
With `real`, further options of `run`, the real job takes its place where there are several nodes.
Otherwise only the main one of them does as it is told, and the others wait at the gate.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, os.getcwd())  # Batch starts jobs in the folder of batchmark_job

from batchmark_job.errors import JobError
from batchmark_job.output import parse_output
from batchmark_job.result.document import ResultDocument, parse_document

EXAMPLE = Path(__file__).parents[1] / "data" / "results" / "cpu.json"
HUGE_BYTES = 200_000_000
LONGEST_WAIT_SECONDS = 3600
OPTIONS = "BATCHMARK_OPTIONS"


def wait_for(path: str | None) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while path and not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.05)


def document(arguments: argparse.Namespace, job_id: str, job_attempt: int) -> ResultDocument:
    """The first row of an example, as if this job had measured it just now."""
    example = parse_document(EXAMPLE.read_bytes())
    now, compute_environment = datetime.now(UTC), os.environ.get("AWS_BATCH_CE_NAME")
    changes = {
        "run_id": arguments.run_id,
        "job_id": job_id,
        "job_attempt": job_attempt,
        "target": arguments.target,
        "suite": arguments.suite,
        "started_at": now,
        "finished_at": now,
        "total_seconds": 0.001,
        "environment": example.environment.model_copy(
            update={"compute_environment": compute_environment}
        ),
        "measurements": example.measurements[:1],
        "marks": None,
    }
    return example.model_copy(update=changes)


def text_of(made: ResultDocument, kind: str) -> str:
    text = made.to_json()
    if kind == "truncated":
        return text[: len(text) // 2]
    return text.ljust(HUGE_BYTES) if kind == "huge" else text


def become_the_real_job(arguments: argparse.Namespace, options: str) -> None:
    os.environ[OPTIONS] = f"{os.environ.get(OPTIONS, '')} {options}"
    run = ["--suite", arguments.suite, "--run-id", arguments.run_id, "--target", arguments.target]
    on_one_core = ["--device", "cpu", "--threads", "1", "--output", arguments.output]
    command = [sys.executable, "-m", "batchmark_job", "run", *run, *on_one_core]
    os.execv(sys.executable, command)  # noqa: S606 - it is the job


def write_checkpoint(mib: int) -> None:
    path = Path(os.environ["BATCHMARK_FILES"]).with_name("checkpoint")
    print(f"stand-in: writes {path}", flush=True)
    path.write_bytes(bytes(mib * 2**20))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instructions", type=Path)
    for option in ("--run-id", "--target", "--suite", "--output"):
        parser.add_argument(option, required=True)
    arguments = parser.parse_args()
    told = json.loads((arguments.instructions / f"{arguments.run_id}.json").read_text())
    if "real" in told and os.environ.get("AWS_BATCH_JOB_NUM_NODES") != "1":
        become_the_real_job(arguments, told["real"])
    job_id = os.environ["AWS_BATCH_JOB_ID"]
    job_attempt = int(os.environ["AWS_BATCH_JOB_ATTEMPT"])
    print(f"attempt {job_attempt} of {job_id} is told {told}", flush=True)
    wait_for(told.get("gate"))
    if os.environ.get("AWS_BATCH_JOB_NODE_INDEX", "0") != "0":
        return 0
    if "checkpoint_mib" in told:
        write_checkpoint(told["checkpoint_mib"])
    kind = told.get("document", "valid")
    if kind != "none":
        output = parse_output(arguments.output, job_id, job_attempt)
        try:
            output.write(text_of(document(arguments, job_id, job_attempt), kind))
        except JobError as error:
            print(f"stand-in: {error}", flush=True)
            return error.exit_code
        print(f"stand-in: wrote {output}", flush=True)
    wait_for(told.get("linger"))
    print(f"stand-in: ends with exit code {told.get('exit_code', 0)}", flush=True)
    return int(told.get("exit_code", 0))


if __name__ == "__main__":
    sys.exit(main())
