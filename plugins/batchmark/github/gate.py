"""`batchmark pull-request`: the steps that action.yml runs before and after measuring."""

from __future__ import annotations

import argparse
import io
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path

from batchmark.core.errors import BatchmarkError
from batchmark.core.output import Parser, markdown, percent, say
from batchmark.core.record import Record
from batchmark.github import baseline as baselines
from batchmark.github import comment
from batchmark.github.baseline import Baseline
from batchmark.github.event import Event
from batchmark.runs.document_files import read_documents

Compare = Callable[[Sequence[str]], int]
BEGUN, SUMMARY, NEW = "begun.json", "summary.md", "new"
NO_COMMENT = (
    "No comment was posted, because the job's token lacks permission. For a pull request from a "
    "fork, it always does; otherwise, add `permissions: pull-requests: write` to the job. The "
    "job summary contains the same text."
)


class Begun(Record):
    """The state that `begin` saves for `end`: the event, the baseline and the options."""

    name: str
    event: Event
    place: str  # of the baseline: a folder, an S3 address or an artifact's name
    baseline: Baseline | None
    least_percent: float
    allow_missing: bool
    require_decided: bool
    require_baseline: bool
    gate: bool
    comment: bool


def main(argv: Sequence[str], compare: Compare) -> int:
    """Run `begin` or `end`; the verdict goes to the step's outputs, not to the exit code."""
    options = _parser().parse_args(argv)
    try:
        if options.command == "begin":
            _begin(options)
        else:
            _end(options, compare)
    except (BatchmarkError, OSError) as error:
        say(f"batchmark pull-request: {error}", error=True)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="batchmark pull-request", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    begin = commands.add_parser("begin", help="check the inputs and fetch the baseline")
    end = commands.add_parser("end", help="compare, then write the summary, outputs and comment")
    of_runner = "provided by GitHub's runner"
    for each in (begin, end):
        each.add_argument(
            "--results", type=Path, required=True, help="folder for results and working files"
        )
        each.add_argument("--step-outputs", type=Path, required=True, help=f"file {of_runner}")
    begin.add_argument(
        "--name", type=_name, required=True, help="name of the comment and the artifacts"
    )
    begin.add_argument(
        "--baseline",
        required=True,
        help="baseline: a folder, an S3 folder such as s3://bucket/folder/, or the name of an "
        "artifact",
    )
    begin.add_argument("--least-percent", type=percent, help="same as in `batchmark compare`")
    for switch, words in (
        ("--allow-missing", "same as in `batchmark compare`"),
        ("--require-decided", "same as in `batchmark compare`"),
        ("--require-baseline", "fail if there is no baseline yet"),
        ("--gate", "fail if the comparison fails"),
        ("--comment", "comment on the pull request"),
    ):
        begin.add_argument(switch, type=_switch, required=True, help=f"{words} (true or false)")
    begin.add_argument("--measured", help="folder with existing results, if any")
    for option in ("--repository", "--event-name", "--ref", "--commit"):
        begin.add_argument(option, required=True, help=of_runner)
    begin.add_argument("--event", type=Path, required=True, help=f"file {of_runner}")
    end.add_argument("--run-url", required=True, help="URL of this run's page")
    end.add_argument("--step-summary", type=Path, required=True, help=f"file {of_runner}")
    return parser


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid name: use 1 to 61 letters, digits, dots, underscores and "
            "hyphens, starting with a letter or digit"
        )
    return text


def _switch(text: str) -> bool:
    if text not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid: use true or false")
    return text == "true"


def _begin(options: argparse.Namespace) -> None:
    event = Event.read(
        options.repository, options.event_name, options.ref, options.commit, options.event
    )
    place = options.baseline or f"{options.name}-baseline"
    begun = Begun(
        **{name: value for name, value in vars(options).items() if name in Begun.model_fields}
        | {
            "event": event,
            "place": place,
            "baseline": baselines.find(place, event, options.results / "baseline"),
        }
    )
    (options.results / BEGUN).write_text(begun.model_dump_json())
    _tell(options.step_outputs, {"commit": event.commit})
    if options.measured:
        _take(Path(options.measured), options.results / NEW)


def _take(measured: Path, folder: Path) -> None:
    """Copy existing results to `folder`, under the file names that jobs on the runner use.

    Raises:
        CollectError: the results can't be read as one side of a comparison.
    """
    documents = read_documents(measured)
    folder.mkdir()
    for number, file in enumerate(documents, start=1):
        shutil.copyfile(file, folder / f"local.{number}.json")


def _end(options: argparse.Namespace, compare: Compare) -> None:
    begun = Begun.model_validate_json((options.results / BEGUN).read_text())
    event, found = begun.event, begun.baseline
    code, told = _compared(begun, found, options.results, compare) if found else _without(begun)
    origin = f"Baseline: {found.origin}. " if found else ""
    text = (
        f"### Batchmark: {markdown(begun.name)}\n\n{told}\n"
        f"{origin}New: [{event.commit[:7]}]({options.run_url}).\n"
    )
    with options.step_summary.open("a") as summary:
        summary.write(text)
    number = event.pull_request if begun.comment else None
    if number is not None and not comment.renew(event.repository, number, begun.name, text):
        say(NO_COMMENT)
    is_kept = event.on_main and baselines.is_artifact(begun.place)
    outputs = {
        "artifact": begun.place if is_kept else f"{begun.name}-results",
        "keep": begun.place if event.on_main and begun.place.startswith(baselines.S3) else "",
        # Merged code becomes the next baseline, slower or not; otherwise main would stay red.
        "code": code if begun.gate and not event.on_main else 0,
    }
    _tell(options.step_outputs, outputs)


def _tell(step_outputs: Path, values: Mapping[str, object]) -> None:
    """Add values to a step's outputs."""
    with step_outputs.open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())


def _compared(begun: Begun, baseline: Baseline, results: Path, compare: Compare) -> tuple[int, str]:
    """Run the comparison; return its exit code and its summary in Markdown."""
    summary, errors = results / SUMMARY, io.StringIO()
    given = ["compare", str(baseline.folder), str(results / NEW), "--gate", "--same-machine"]
    given += [f"--least-percent={begun.least_percent}", f"--markdown={summary}"]
    given += ["--allow-missing"] if begun.allow_missing else []
    given += ["--require-decided"] if begun.require_decided else []
    with redirect_stderr(errors):
        code = compare(given)
    if summary.exists():
        return code, summary.read_text()
    sys.stderr.write(errors.getvalue())
    return code, f"**Not compared.** {markdown(errors.getvalue())}\n"


def _without(begun: Begun) -> tuple[int, str]:
    """Return an exit code and a summary, as `_compared` does, for a run without a baseline."""
    told = (
        "There is **no baseline yet**, so nothing was compared. The next successful run on "
        f"{markdown(begun.event.main)} will create one.\n"
    )
    return int(begun.require_baseline), told
