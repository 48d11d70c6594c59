"""The history by hand: make it anew, import what other tools measured, export it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchmark.exceptions import BatchmarkError, HistoryError
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.exports import asv, bencher, csv
from batchmark.history.exports.runs import COLUMNS
from batchmark.history.imports.file import FORMATS, ImportedFile, detect
from batchmark.history.rebuild import rebuild
from batchmark.history.store import HistoryStore
from batchmark_job.result import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAMED = 20  # of many keys
EXPORTS = {"asv": asv.files, "bencher": bencher.files}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 1 after telling in one line why it can't be done."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    options = _parser().parse_args(arguments)
    try:
        options.run(boto3.client("s3", region_name=options.region), options)
    except (BatchmarkError, BotoCoreError, ClientError, OSError) as error:
        print(f"history {options.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m batchmark.history", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--bucket", required=True, help="result bucket of the installation")
    common.add_argument("--region", help="AWS region (default: as the AWS settings say)")

    again = commands.add_parser(
        "rebuild", parents=[common], help="make it anew of the raw documents and imported files"
    )
    again.add_argument("--dry-run", action="store_true", help="only say what would change")
    again.set_defaults(run=_rebuild)

    add = commands.add_parser(
        "import", parents=[common], help="add results of other tools, as the suite `imported`"
    )
    add.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="of one tool, or of several"
    )
    add.add_argument(
        "--target",
        type=_name_given,
        required=True,
        help="name of the machine that they were made on",
    )
    add.add_argument("--format", choices=FORMATS, help="default: as the file looks")
    add.add_argument(
        "--device",
        type=Device,
        choices=list(Device),
        default=Device.CPU,
        help="that they measured (default: %(default)s)",
    )
    add.set_defaults(run=_import)

    out = commands.add_parser("export", parents=[common], help="write it for other tools")
    out.add_argument("--format", choices=("csv", *EXPORTS), required=True)
    out.add_argument(
        "--output",
        required=True,
        type=Path,
        help="file of the CSV, or folder of asv's or Bencher's",
    )
    out.add_argument("--suite", action="append", help="only this one; may be repeated")
    out.add_argument(
        "--since", type=date.fromisoformat, metavar="YYYY-MM-DD", help="only from this day on, UTC"
    )
    out.set_defaults(run=_export)
    return parser


def _rebuild(s3: Any, options: argparse.Namespace) -> None:
    region = options.region or s3.meta.region_name
    done = rebuild(s3, options.bucket, region, dry_run=options.dry_run, progress=_progress)
    would = "would be " if options.dry_run else ""
    print(
        f"{done.sources} runs and imported files: {len(done.written)} files {would}written, "
        f"{done.unchanged} as they were, {len(done.removed)} {would}removed"
    )
    _name(f"{would}removed, for no run and no import accounts for them".capitalize(), done.removed)
    _name("Raw documents that no collected run accounts for, not in the history", done.uncounted)
    for problem in done.problems:
        print(problem, file=sys.stderr)


def _progress(steps: Iterable[Any], count: int) -> Iterable[Any]:
    from rich.console import Console
    from rich.progress import track

    return track(steps, "Rebuilding", count, console=Console(stderr=True), transient=True)


def _name(what: str, keys: Sequence[str]) -> None:
    if keys:
        more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
        print(f"{what}: {len(keys)} ({', '.join(keys[:NAMED])}{more})")


def _import(s3: Any, options: argparse.Namespace) -> None:
    """All files are read, and their rows made, before one is imported."""
    history = HistoryStore(s3, options.bucket)
    read = []
    for path in options.files:
        file = _read(path, options)
        parsed = file.parse()
        refused = ", ".join(f"{count} in {unit!r}" for unit, count in parsed.refused.items())
        if not parsed.measurements:
            raise HistoryError(f"{path} holds no time and no rate of calls: {refused or 'nothing'}")
        runs = len({one.run_id for one in parsed.measurements})
        counted = f"{len(parsed.measurements)} measurements of {runs} runs"
        counted += f"; no times, so left out: {refused}" if refused else ""
        read.append((file, file.files(), counted))
    for file, files, counted in read:
        history.append_import(file, files)
        print(f"{file.file_name}: {counted}")


def _read(path: Path, options: argparse.Namespace) -> ImportedFile:
    text = _text(path)
    # asv keeps it in the folder above its machines'.
    above = path.resolve().parent.parent / "benchmarks.json"
    kind = options.format or detect(text, str(path))
    return ImportedFile(
        format=kind,
        target=options.target,
        device=options.device,
        file_name=os.fsencode(path.name).decode(errors="replace"),
        text=text,
        benchmarks_text=_text(above) if kind == "asv" and above.exists() else None,
    )


def _name_given(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!a} is no name")
    return text


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path} is no text: {error}") from error


def _export(s3: Any, options: argparse.Namespace) -> None:
    """Raises HistoryError before anything is written: there is no such suite, or none at all."""
    history = HistoryStore(s3, options.bucket)
    known = history.suites()
    if not known:
        raise HistoryError(f"the history in {options.bucket} is empty; nothing was written")
    if unknown := sorted(set(options.suite or ()) - set(known)):
        raise HistoryError(
            f"the history has no suite {', '.join(unknown)}; it has {', '.join(known)}"
        )
    chosen = {"suites": options.suite, "since": options.since}
    if options.format == "csv":
        count = csv.write(history.tables(ALL_COLUMNS, **chosen), options.output)
        print(f"{options.output}: {count} rows")
    else:
        files = 0
        for name, content in EXPORTS[options.format](history.read(COLUMNS, **chosen)):
            path = options.output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=1) + "\n")
            files += 1
        print(f"{options.output}: {files} files")
    for key in history.unreadable:
        print(f"left aside, for it can't be read: {key}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
