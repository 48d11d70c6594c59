"""Runs the system on one machine, or checks an AWS account; called by the Makefile."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from batchmark.core.output import Parser, say
from laptop import INTERRUPTS, TARGETS
from laptop.errors import LaptopError

BUILD = Path(__file__).resolve().parent.parent / "build"
INTERRUPTED = 130
RUN_ONCE = {
    "demo": "run the whole pipeline once",
    "demo-sharing": "run a GPU-sharing benchmark once",
    "demo-distributed": "run a two-node training benchmark once",
    "try-job": "run one of your own jobs once",
}


def main() -> int:
    parser = Parser(prog="python -m laptop", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run_once = {name: commands.add_parser(name, help=what) for name, what in RUN_ONCE.items()}
    for name, command in run_once.items():
        command.add_argument("--folder", type=Path, default=BUILD / name, help="report folder")
    run_once["demo"].add_argument("--suite", default="smoke")
    try_job = run_once["try-job"].add_argument
    try_job("--jobs", type=Path, required=True, help="file that defines own_jobs")
    try_job("--job", help="name of the job, if the file defines several")
    try_job("--repeats", type=int, default=3, help="number of jobs per target and size")
    try_job(
        "--target", choices=TARGETS, help="run the job on this target only (default: all targets)"
    )
    try_job(
        "--commit", help="commit that the job measures, shown with the run (default: the file's)"
    )
    try_job(
        "--baseline", type=Path, help="compare with the job in this file, such as main's version"
    )
    try_job("--baseline-commit", help="commit that the baseline measures (default: its file's)")
    try_job("--watch", metavar="RUNS", help="number of runs; several show a trend (default: 1)")
    try_job("--engine", action="store_true", help="run the job as a container on a Docker engine")
    up_command = commands.add_parser("up", help="start everything and leave it running")
    up_command.add_argument("--port", type=int, default=8080, help="port of the Airflow UI")
    up_command.add_argument("--jobs", type=Path, help="file that defines own_jobs")
    down_command = commands.add_parser("down", help="stop everything that `up` started")
    down_command.add_argument(
        "--state", choices=("keep", "delete"), default="keep", help="keep or delete all data"
    )
    for command in (up_command, down_command):
        command.add_argument(
            "--folder", type=Path, default=BUILD / "up", help="folder for data and logs"
        )
    _add_containers(commands)
    _add_aws_check(commands)
    arguments = parser.parse_args()
    if arguments.command == "try-job" and arguments.baseline and arguments.watch:
        parser.error("--baseline and --watch can't be combined: set only one of them")
    for number in INTERRUPTS:
        signal.signal(number, _interrupt)
    try:
        if arguments.command.startswith("containers-"):
            _run_containers(arguments)
        elif arguments.command == "aws-check":
            _run_aws_check(arguments)
        else:
            _run_processes(arguments)
    except LaptopError as error:
        for line in f"{arguments.command}: {error}".split("\n"):
            say(line, error=True)
        return 1
    except KeyboardInterrupt:
        print(f"{arguments.command}: interrupted", file=sys.stderr)
        # If interrupted while evaluating a string, as an import of dataclasses does, CPython exits
        # with the signal although this is caught, unless another evaluation follows.
        exec("")  # noqa: S102
        return INTERRUPTED
    return 0


def _add_containers(commands: Any) -> None:
    """Add the commands that deploy with `docker compose`."""
    up = commands.add_parser("containers-up", help="start everything in containers")
    up.add_argument("--no-build", action="store_true", help="don't build the images first")
    down = commands.add_parser("containers-down", help="stop and remove the containers")
    down.add_argument(
        "--volumes", choices=("keep", "delete"), default="keep", help="keep or delete all data"
    )
    backup = commands.add_parser("containers-backup", help="back up the database and the bucket")
    backup.add_argument("--to", type=Path, required=True, help="new folder for the backup")
    restore = commands.add_parser("containers-restore", help="restore a backup")
    restore.add_argument("--from", dest="source", type=Path, required=True, help="backup folder")
    for command in (up, down, backup, restore):
        command.add_argument("--profile", default="local", help="deployment profile: local or aws")
        command.add_argument("--port", type=int, default=8080, help="port of the Airflow UI")
        command.add_argument("--cloud-port", type=int, default=5000, help="port of the local cloud")
        command.add_argument("--project", default="batchmark", help="name of the deployment")
        command.add_argument(
            "--folder",
            type=Path,
            default=BUILD.parent / "containers",
            help="folder for secrets and state",
        )


def _add_aws_check(commands: Any) -> None:
    """Add the command that checks an AWS account."""
    check = commands.add_parser(
        "aws-check", help="deploy to an AWS account, test the deployment and destroy it"
    )
    check.add_argument("--region", help="AWS region (default: the one in your AWS settings)")
    check.add_argument("--budget", default="2", help="maximum cost in USD")
    check.add_argument("--image", help="existing job image to use instead of building one")
    check.add_argument(
        "--with",
        dest="parts",
        default="",
        help="optional parts to test, separated by commas: sharing, multi_node, eks",
    )
    check.add_argument("--resume", action="store_true", help="continue an unfinished check")
    check.add_argument("--destroy", action="store_true", help="clean up an unfinished check")
    check.add_argument("--keep", action="store_true", help="keep all resources when the check ends")
    check.add_argument("--yes", action="store_true", help="accept the cost without confirmation")
    check.add_argument(
        "--folder",
        type=Path,
        default=BUILD.parent / "aws-check",
        help="folder for the state of all checks",
    )


# Imported late: it takes up to 1.5 s, during which signals must already be handled.


def _run_processes(arguments: argparse.Namespace) -> None:
    from laptop.demo import demo, demo_distributed, demo_sharing
    from laptop.own_jobs.try_job import compare_versions, try_job
    from laptop.own_jobs.versions import Version
    from laptop.up import down, up

    if arguments.command == "demo":
        demo(arguments.suite, arguments.folder)
    elif arguments.command == "demo-sharing":
        demo_sharing(arguments.folder)
    elif arguments.command == "demo-distributed":
        demo_distributed(arguments.folder)
    elif arguments.command == "try-job" and arguments.baseline:
        compare_versions(
            Version(arguments.jobs, arguments.commit),
            Version(arguments.baseline, arguments.baseline_commit),
            arguments.job,
            arguments.repeats,
            arguments.folder,
            engine=arguments.engine,
            target=arguments.target,
        )
    elif arguments.command == "try-job":
        try_job(
            arguments.jobs,
            arguments.job,
            arguments.repeats,
            arguments.folder,
            engine=arguments.engine,
            watch=arguments.watch,
            target=arguments.target,
            commit=arguments.commit,
        )
    elif arguments.command == "up":
        up(arguments.port, arguments.folder, arguments.jobs)
    else:
        down(arguments.folder, delete_state=arguments.state == "delete")


def _run_containers(arguments: argparse.Namespace) -> None:
    from laptop.containers.backup import backup, restore
    from laptop.containers.compose import Deployment
    from laptop.containers.lifecycle import down, up

    deployment = Deployment(
        project=arguments.project,
        profile=arguments.profile,
        port=arguments.port,
        cloud_port=arguments.cloud_port,
        folder=arguments.folder,
    )
    if arguments.command == "containers-up":
        up(deployment, build=not arguments.no_build)
    elif arguments.command == "containers-down":
        down(deployment, delete_volumes=arguments.volumes == "delete")
    elif arguments.command == "containers-backup":
        backup(deployment, arguments.to)
    else:
        restore(deployment, arguments.source)


def _run_aws_check(arguments: argparse.Namespace) -> None:
    from laptop.aws_check.command import CheckOptions, aws_check

    order = CheckOptions(
        region=arguments.region,
        budget=arguments.budget,
        image=arguments.image,
        parts=arguments.parts,
        resume=arguments.resume,
        destroy=arguments.destroy,
        keep=arguments.keep,
        yes=arguments.yes,
    )
    aws_check(order, arguments.folder)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Interrupt the command, and ignore further signals so that the clean-up can finish."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
