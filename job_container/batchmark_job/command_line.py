"""Measure workloads on this machine, and write one result document."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from batchmark_job import suite_arguments
from batchmark_job.distributed.node import Node
from batchmark_job.errors import CannotMeasureError, InputError, JobError, drop_output
from batchmark_job.given_version import given_version
from batchmark_job.image_set import arguments as image_set_arguments
from batchmark_job.interruption import Interruption
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.option_values import add_options, number, one_of, whole_number
from batchmark_job.output import parse_output
from batchmark_job.result import metric
from batchmark_job.result.document import ResultError, first_twice, json_schema, parse_document
from batchmark_job.result.printable import printable
from batchmark_job.result.values import (
    BY_HAND,
    MOST_CHARACTERS_OF_NAME,
    MOST_ROWS,
    MOST_SAMPLES,
    MOST_SAMPLES_IN_ALL,
    NO_RUN,
)
from batchmark_job.result.version import GivenVersion
from batchmark_job.settings import JobSettings, RequestedDevice
from batchmark_job.suites import (
    CUSTOM,
    NAMES,
    SCALING,
    SHARING,
    SUITES,
    USER_SUITE,
    Grid,
    Point,
    Suite,
    find_suite,
)
from batchmark_job.workloads.base import DTYPE_BYTES, Workload
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.own.files import (
    BUNDLED,
    find_user_files,
    read_workload,
    refuse_name_clash,
)

DEVICES: tuple[RequestedDevice, ...] = ("auto", "cpu", "cuda")
OPTIONS = "BATCHMARK_OPTIONS"  # further options of `run`
SUITE_DTYPES = "suite"
SCHEMAS = {"result": json_schema, "metric-line": metric.json_schema}
DTYPES = (SUITE_DTYPES, *DTYPE_BYTES)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `batchmark-job {_COMMANDS} --help`")


_COMMANDS = "{run,images,show,list,template,schema}"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="batchmark-job", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run", help="measure a suite or a workload and write a result document", allow_abbrev=False
    )
    run.add_argument("--suite", help=f"suite to measure: one of {', '.join(NAMES)}")
    run.add_argument("--workload", help="workload to measure instead of a suite")
    run.add_argument(
        "--axis",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        help="values of one of the workload's axes; may be repeated",
    )
    run.add_argument(
        "--device", default="auto", help=f"device to measure on: one of {', '.join(DEVICES)}"
    )
    run.add_argument(
        "--dtype",
        default=SUITE_DTYPES,
        help=f"one of {', '.join(DTYPES)}; {SUITE_DTYPES} (the default) uses the suite's own "
        "dtypes, or float32 without a suite",
    )
    run.add_argument(
        "--threads", default="0", help="number of CPU threads; 0 uses all available ones"
    )
    run.add_argument("--run-id", default=NO_RUN, help="name of the run this job belongs to")
    run.add_argument("--target", default=BY_HAND, help="name of the machine type to measure")
    run.add_argument(
        "--output",
        help="file or s3://bucket/key (default: a new file in the current folder). A path ending "
        "in '/' is treated as a folder, to which each run adds a document",
    )
    run.add_argument(
        "--allow-cpu-fallback",
        action="store_true",
        help="if --device cuda finds no GPU, measure on the CPU and record this in the result",
    )
    run.add_argument("--samples", help="maximum samples per row (default: the suite's)")
    run.add_argument("--max-seconds", help="maximum seconds per row (default: the suite's)")
    run.add_argument(
        "--precision",
        help="stop when the median's confidence interval is at most plus or minus this fraction "
        "of the median (default: 0.01)",
    )
    run.add_argument(
        "--no-ceilings",
        action="store_true",
        help="skip measuring the machine's peak rates at the end",
    )
    run.add_argument(
        "--metrics-namespace",
        metavar="NAME",
        help="CloudWatch namespace to publish the machine's utilisation in (default: none)",
    )
    add_options(run.add_argument_group("version, recorded in the document"), GivenVersion)
    suite_arguments.add(run)
    image_set_arguments.add(commands)
    show = commands.add_parser("show", help="print a result document as a table")
    show.add_argument("file", metavar="FILE")
    commands.add_parser("list", help="show suites and workloads")
    commands.add_parser("template", help="print a template for a workload of your own")
    schema = commands.add_parser("schema", help="print a JSON Schema")
    schema.add_argument(
        "name",
        nargs="?",
        default="result",
        choices=SCHEMAS,
        help="the schema of the result document (default) or of a line that reports a metric",
    )
    return parser


def main(argv: Sequence[str] | None = None, interruption: Interruption | None = None) -> int:
    """Run one command and return its exit code; the README explains exit codes."""
    try:
        arguments = _parser().parse_args(_with_options(sys.argv[1:] if argv is None else argv))
        if arguments.command == "run":
            return _run(arguments, interruption)
        if arguments.command == image_set_arguments.COMMAND:
            image_set_arguments.run(arguments, interruption)
            return 0
        _print(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except JobError as error:
        print(printable(f"batchmark-job: error: {error}"), file=sys.stderr)
        return error.exit_code
    return 0


def _with_options(argv: Sequence[str]) -> list[str]:
    """Add to `run` the options in BATCHMARK_OPTIONS, which Batch job definitions set."""
    added = os.environ.get(OPTIONS, "")
    if argv[:1] != ["run"] or not added:
        return list(argv)
    try:
        return [*argv, *shlex.split(added)]
    except ValueError as error:
        raise InputError(
            f"{OPTIONS} is {added!r}: {error}; quote it as you would in a shell"
        ) from None


def _print(arguments: argparse.Namespace) -> None:
    if arguments.command == "list":
        _list()
    elif arguments.command == "show":
        _show_document(arguments.file)
    elif arguments.command == "template":
        print((BUNDLED / "softmax.py").read_text(), end="")
    else:
        print(json.dumps(SCHEMAS[arguments.name](), indent=2))


def _run(arguments: argparse.Namespace, interruption: Interruption | None) -> int:
    suite, points, limits = _what_to_measure(arguments)
    device = one_of("--device", arguments.device, DEVICES)
    threads = whole_number("--threads", arguments.threads)
    for option, value in (("--run-id", arguments.run_id), ("--target", arguments.target)):
        if not value.strip():
            raise InputError(f"{option} is empty; specify a name")
        if len(value) > MOST_CHARACTERS_OF_NAME:
            raise InputError(
                f"{option} has {len(value)} characters; use {MOST_CHARACTERS_OF_NAME} or fewer"
            )
        if printable(value) != value:
            raise InputError(
                f"{option} {value!r} contains a control character; use a name without one"
            )
    metrics_namespace = _metrics_namespace(arguments.metrics_namespace)
    version = given_version(arguments, os.environ)
    job_id, job_attempt = job_from_batch()
    place = suite_arguments.place(points)
    node = Node.of(os.environ) if suite == SCALING else None
    address = arguments.output
    if address is None:
        address = f"batchmark-{suite}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    output = parse_output(address, job_id, job_attempt)
    output.check()
    # Imported late: this loads libraries for seconds, and the mistakes above need none of them.
    try:
        from batchmark_job.job import run_job
    except ModuleNotFoundError as error:
        raise CannotMeasureError(
            f"{error.name} is not installed; install `batchmark-job[run]`"
        ) from None

    settings = JobSettings(
        run_id=arguments.run_id,
        job_id=job_id,
        job_attempt=job_attempt,
        target=arguments.target,
        suite=suite,
        points=tuple(points),
        limits=limits,
        requested_device=device,
        threads=threads,
        allow_cpu_fallback=arguments.allow_cpu_fallback,
        output=output,
        metrics_namespace=metrics_namespace,
        ceilings=not arguments.no_ceilings,
        place=place,
        node=node,
        version=version,
    )
    return run_job(settings, interruption)


def _show_document(file: str) -> None:
    """Print a document as a table.

    Raises:
        InputError: the file can't be read, or is not a result document.
    """
    from batchmark_job.table import lines

    try:
        document = parse_document(Path(file).read_bytes())
    except OSError as error:
        reason = f"{file} can't be read ({error.strerror}); specify a readable result document"
        raise InputError(reason) from None
    except ResultError as error:
        raise InputError(f"{file}: {error}") from None
    print("\n".join(lines(document)))


def job_from_batch() -> tuple[str, int]:
    """Return the job id and attempt from AWS Batch, or "local" and 1 outside Batch."""
    job_id = os.environ.get("AWS_BATCH_JOB_ID") or BY_HAND
    attempt = os.environ.get("AWS_BATCH_JOB_ATTEMPT") or "1"
    if not attempt.isdecimal() or int(attempt) < 1:
        raise InputError(
            f"AWS_BATCH_JOB_ATTEMPT is {attempt!r}; it must be a whole number of 1 or more"
        )
    return job_id, int(attempt)


def _what_to_measure(arguments: argparse.Namespace) -> tuple[str, list[Point], RowLimits]:
    if (arguments.suite is None) == (arguments.workload is None):
        raise InputError(f"specify either --suite ({', '.join(NAMES)}) or --workload with --axis")
    dtype = one_of("--dtype", arguments.dtype, DTYPES)
    dtypes = () if dtype == SUITE_DTYPES else (dtype,)
    suite_arguments.refuse(arguments, arguments.suite)
    if arguments.workload is not None:
        refuse_name_clash(arguments.workload)
        points = _fitting(Grid(arguments.workload, _axes(arguments.axis)).points(dtypes))
        return CUSTOM, points, _limits(arguments, RowLimits(), len(points))
    suite = _suite(arguments)
    points = _fitting(suite.points(dtypes))
    return suite.name, points, _limits(arguments, suite.limits, len(points))


def _suite(arguments: argparse.Namespace) -> Suite:
    if arguments.suite == SHARING:
        return suite_arguments.sharing_suite(arguments, _axes(arguments.axis))
    if arguments.suite == SCALING:
        if arguments.axis or arguments.samples is not None:
            raise InputError(
                f"--axis and --samples don't apply to --suite {SCALING}; use that suite's own "
                "options instead"
            )
        return suite_arguments.scaling_suite(arguments, Node.of(os.environ))
    if arguments.axis:
        raise InputError("--axis requires --workload; a suite has its own sizes")
    return find_suite(arguments.suite)


def _fitting(points: list[Point]) -> list[Point]:
    """Return the points after checking that they fit in one document.

    Raises:
        InputError: there are too many points, or two of them are the same row.
    """
    if len(points) > MOST_ROWS:
        raise InputError(
            f"{len(points)} rows don't fit in one result document; specify fewer sizes (at most "
            f"{MOST_ROWS} rows)"
        )
    rows = [
        (point.workload, tuple(point.named_parameters.items()), point.dtype) for point in points
    ]
    if row := first_twice(rows):
        workload, parameters, dtype = row
        sizes = " ".join(f"{name}={value}" for name, value in parameters)
        raise InputError(
            f"the row {workload} {sizes} {dtype} is requested twice; request it only once"
        )
    return points


def _axes(options: Sequence[str]) -> dict[str, list[int]]:
    axes: dict[str, list[int]] = {}
    for option in options:
        name, equals, values = option.partition("=")
        if not equals or not name or not values:
            raise InputError(
                f"--axis {option!r} is not of the form NAME=V1,V2; use, for example, --axis "
                "size=1000"
            )
        if name in axes:
            raise InputError(
                f"--axis {name} is specified twice; combine its values as {name}=V1,V2"
            )
        axes[name] = [whole_number(f"--axis {name}", value) for value in values.split(",")]
    return axes


def _limits(arguments: argparse.Namespace, default: RowLimits, rows: int) -> RowLimits:
    most = MOST_SAMPLES_IN_ALL // rows
    samples = min(default.samples, most)
    if arguments.samples is not None:
        samples = whole_number("--samples", arguments.samples)
        if most < samples <= MOST_SAMPLES:
            raise InputError(
                f"--samples {samples} is too many for {rows} rows; use {most} or fewer, since a "
                f"result document can hold at most {MOST_SAMPLES_IN_ALL} samples"
            )
    return replace(
        default,
        samples=samples,
        max_seconds=number("--max-seconds", arguments.max_seconds, default.max_seconds),
        precision=number("--precision", arguments.precision, default.precision),
    )


def _metrics_namespace(name: str | None) -> str | None:
    """Check the namespace before measuring, so that CloudWatch won't reject it afterwards."""
    if name is None:
        return None
    option = f"--metrics-namespace {name!r}"
    if not re.fullmatch(r"[A-Za-z0-9._/# -][A-Za-z0-9._/#: -]{0,254}", name) or name.isspace():
        raise InputError(
            f"{option} is not a valid CloudWatch namespace; use 1 to 255 ASCII letters, digits, "
            "spaces and ._-/#:, not starting with ':', such as Batchmark"
        )
    if name.startswith("AWS/"):
        raise InputError(f"{option} is reserved for AWS; choose one that doesn't start with AWS/")
    return name


def _list() -> None:
    for suite in SUITES.values():
        print(f"suite {suite.name}: {suite.summary}; {len(suite.points())} rows")
        for grid in suite.grids:
            axes = " ".join(f"{name}={','.join(map(str, v))}" for name, v in grid.axes.items())
            print(f"  {grid.workload} {axes}: {' '.join(grid.dtypes)}")
    print(
        f"suite {USER_SUITE}: your own workloads, listed last, with the sizes given in their files"
    )
    for workload in WORKLOADS.values():
        _show(workload)
    for name, path in find_user_files().items():
        try:
            _show(read_workload(path))
        except InputError as error:
            print(f"workload {name}: {error}")


def _show(workload: Workload) -> None:
    print(f"workload {workload.name}: {workload.summary}")
    for axis in workload.axes:
        default = "required" if axis.default is None else f"default {axis.default}"
        print(f"  {axis.name}: {axis.minimum} to {axis.maximum}, {default}")
    for implementation in workload.implementations:
        devices, dtypes = ", ".join(implementation.devices), ", ".join(implementation.dtypes)
        print(f"  implementation {implementation.name} on {devices}: {dtypes}")
