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
from batchmark_job.result.document import (
    Correctness,
    Device,
    Environment,
    Implementation,
    Measurement,
    MeasurementStatus,
    ResultDocument,
)

HUGE_BYTES = 200_000_000
LEVELS = 5_000
LONGEST_WAIT_SECONDS = 600
OPTIONS = "BATCHMARK_OPTIONS"


def wait_for(path: str | None) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while path and not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.05)


def document(arguments: argparse.Namespace, job_id: str, job_attempt: int) -> ResultDocument:
    now = datetime.now(UTC)
    return ResultDocument(
        run_id=arguments.run_id,
        job_id=job_id,
        job_attempt=job_attempt,
        target=arguments.target,
        suite=arguments.suite,
        requested_device="cpu",
        actual_device=Device.CPU,
        status="complete",
        started_at=now,
        finished_at=now,
        total_seconds=0.001,
        environment=Environment(
            instance_type=None,
            cpu_model="none",
            cpu_cores=1,
            cpu_threads=1,
            compute_threads=1,
            memory_bytes=1,
            gpu_model=None,
            gpu_count=0,
            gpu_memory_bytes=None,
            driver_version=None,
            cuda_version=None,
            torch_version="none",
            python_version=sys.version.split()[0],
            kernel="none",
            image_digest=None,
            compute_environment=os.environ.get("AWS_BATCH_CE_NAME"),
        ),
        measurements=(
            Measurement(
                workload="stand_in",
                parameters={"size": 1},
                dtype="float32",
                status=MeasurementStatus.MEASURED,
                implementation=Implementation(name="none", version="1"),
                cold_seconds=1.0,
                samples_seconds=(1.0,),
                correctness=Correctness(relative_error=0.0, tolerance=1.0),
            ),
        ),
    )


def text_of(made: ResultDocument, kind: str) -> str:
    text = made.to_json()
    return {
        "valid": lambda: text,
        "truncated": lambda: text[: len(text) // 2],
        "other_version": lambda: json.dumps({**json.loads(text), "schema_version": 99}),
        "other_job": lambda: text.replace(made.job_id, "11111111-0000-0000-0000-000000000000"),
        "huge": lambda: text.ljust(HUGE_BYTES),
        "deep": lambda: "[" * LEVELS + "]" * LEVELS,
        "overflowing": lambda: text.replace('"memory_bytes": 1,', f'"memory_bytes": 1{"0" * 400},'),
        "doubled": lambda: made.model_copy(
            update={"measurements": made.measurements * 2}
        ).to_json(),
    }[kind]()


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
