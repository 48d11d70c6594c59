"""Show the history, rebuild it, import other tools' results, or export it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import client
from batchmark.core.errors import BatchmarkError, HistoryError
from batchmark.core.formatting import some
from batchmark.core.output import drop_output
from batchmark.history import series
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.exports import asv, bencher, csv
from batchmark.history.exports.runs import COLUMNS
from batchmark.history.imports.file import FORMATS, READERS, ImportedFile, detect
from batchmark.history.imports.measurement import Parsed
from batchmark.history.overview import overview
from batchmark.history.rebuild import rebuild
from batchmark.history.store import HistoryStore, Selection
from batchmark_job.result.document import Device

MOST_KEYS = 20  # in a message
LONG = 100  # steps: from here on, progress is printed
EXPORTS = {"asv": asv.files, "bencher": bencher.files}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 1 after printing in one line why it failed."""
    options = _parser().parse_args(arguments)
    try:
        options.run(client("s3", options.region), options)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except (BatchmarkError, BotoCoreError, ClientError, OSError) as error:
        print(f"history {options.command}: {error}", file=sys.stderr)
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(f"{message}; `{self.prog} --help` says more")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="batchmark history", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = _Parser(add_help=False)
    common.add_argument(
        "--bucket",
        required=True,
        help="result bucket: `terraform output -raw bucket_name` in terraform/ prints it, and "
        "`make up` on a laptop",
    )
    common.add_argument("--region", help="AWS region (default: that of the AWS settings)")

    show = commands.add_parser(
        "show", parents=[common], help="the newest runs, and each row against its earlier ones"
    )
    show.add_argument("--suite", action="append", help="only this suite; may be repeated")
    show.set_defaults(run=_show)

    again = commands.add_parser(
        "rebuild", parents=[common], help="rebuild it from raw documents and imported files"
    )
    again.add_argument("--dry-run", action="store_true", help="only print what would change")
    again.set_defaults(run=_rebuild)

    add = commands.add_parser(
        "import", parents=[common], help="add other tools' results as the suite `imported`"
    )
    add.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="results of one or several tools"
    )
    add.add_argument(
        "--target",
        type=_target_name,
        help="name of the machine that measured them (needed, unless the file names it)",
    )
    add.add_argument("--format", choices=FORMATS, help="default: detected")
    add.add_argument(
        "--device",
        type=Device,
        choices=list(Device),
        default=Device.CPU,
        help="device that they measured (default: %(default)s)",
    )
    add.set_defaults(run=_import)

    out = commands.add_parser("export", parents=[common], help="write it in another tool's format")
    out.add_argument("--format", choices=("csv", *EXPORTS), required=True)
    out.add_argument(
        "--output", required=True, type=Path, help="CSV file, or folder for asv or Bencher"
    )
    out.add_argument("--suite", action="append", help="only this suite; may be repeated")
    out.add_argument(
        "--since",
        type=date.fromisoformat,
        metavar="YYYY-MM-DD",
        help="only rows from this day on, UTC",
    )
    out.set_defaults(run=_export)
    return parser


def _rebuild(s3: Any, options: argparse.Namespace) -> None:
    region = options.region or s3.meta.region_name
    result = rebuild(s3, options.bucket, region, dry_run=options.dry_run, progress=_progress)
    would = "would be " if options.dry_run else ""
    print(
        f"{result.sources} runs and imported files: {len(result.written)} files {would}written, "
        f"{result.unchanged} unchanged, {len(result.removed)} {would}removed"
    )
    _print_keys(f"{would}removed, as no run or import has them".capitalize(), result.removed)
    _print_keys("Raw documents of no collected run, not in the history", result.uncounted)
    if result.unchecked:
        print(
            f"Not checked: {result.unchecked} raw documents, as collected by a release that kept "
            "no SHA-256 by which a replaced one would show"
        )
    for problem in result.problems:
        print(problem, file=sys.stderr)


def _progress(steps: Iterable[Any], count: int) -> Iterator[Any]:
    """Yield the steps; where there are many, print every tenth how far it is."""
    tenth = count // 10 if count >= LONG else count + 1
    for number, step in enumerate(steps, 1):
        yield step
        if number % tenth == 0:
            print(f"{number} of {count} done", file=sys.stderr)


def _print_keys(title: str, keys: Sequence[str]) -> None:
    if keys:
        print(f"{title}: {len(keys)} ({some(keys, MOST_KEYS)})")


def _import(s3: Any, options: argparse.Namespace) -> None:
    """Import all files, or none if one of them can't be imported."""
    history = HistoryStore(s3, options.bucket)
    converted = []
    for path in options.files:
        file = _read(path, options)
        summary = _summary(path, file.parse())
        converted.append((file, file.files(), summary))
    for file, files, summary in converted:
        history.append_import(file, files)
        print(f"{file.file_name}: {summary}")


def _summary(path: Path, parsed: Parsed) -> str:
    """Return what a file holds.

    Raises:
        HistoryError: it holds no times.
    """
    refused = ", ".join(f"{count} in {unit!r}" for unit, count in parsed.refused.items())
    if not parsed.measurements:
        raise HistoryError(f"{path} has no time and no rate of calls: {refused or 'nothing'}")
    runs = len({measurement.run_id for measurement in parsed.measurements})
    left_out = f"; not times, so left out: {refused}" if refused else ""
    return f"{len(parsed.measurements)} measurements of {runs} runs{left_out}"


def _read(path: Path, options: argparse.Namespace) -> ImportedFile:
    text = _text(path)
    # asv has one in the folder above its machines' folders.
    benchmarks = path.resolve().parent.parent / "benchmarks.json"
    kind = options.format or detect(text, str(path))
    if options.target is None and not READERS[kind].names_its_targets:
        raise HistoryError(
            f"{path} does not say what machine measured it: name it, such as --target ci-runner"
        )
    return ImportedFile(
        format=kind,
        target=options.target or kind,
        device=options.device,
        file_name=os.fsencode(path.name).decode(errors="replace"),
        text=text,
        benchmarks_text=_text(benchmarks) if kind == "asv" and benchmarks.exists() else None,
    )


def _target_name(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!a} is not a name")
    return text


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise HistoryError(f"{path} is not UTF-8 text: {error}") from error


def _chosen_suites(history: HistoryStore, options: argparse.Namespace) -> list[str]:
    """Those asked for, or all.

    Raises:
        HistoryError: there is no such suite, or no history.
    """
    known = history.suites()
    if not known:
        raise HistoryError(
            f"the history in {options.bucket} is empty: no run has been collected yet"
        )
    if unknown := sorted(set(options.suite or ()) - set(known)):
        raise HistoryError(
            f"the history has no suite {', '.join(unknown)}; it has {', '.join(known)}"
        )
    return list(options.suite or known)


def _show(s3: Any, options: argparse.Namespace) -> None:
    history = HistoryStore(s3, options.bucket)
    for number, suite in enumerate(_chosen_suites(history, options)):
        if number:
            print()
        print("\n".join(overview(suite, history.read(series.COLUMNS, suites=[suite]))))
    for key in history.unreadable:
        print(f"skipped, as it can't be read: {key}", file=sys.stderr)


def _export(s3: Any, options: argparse.Namespace) -> None:
    """Write the rows chosen.

    Raises:
        HistoryError: there is no such suite, or no history; nothing has been written.
    """
    history = HistoryStore(s3, options.bucket)
    _chosen_suites(history, options)
    chosen: Selection = {"suites": options.suite, "since": options.since}
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
        print(f"skipped, as it can't be read: {key}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
