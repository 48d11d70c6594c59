"""No text of any input, wherever it is shown, adds a line, steers a terminal or gives an order."""

import io
import json
import re
import typing
from functools import cache

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from rich.console import Console

from batchmark.analysis.side_by_side import Chosen, side_by_side
from batchmark.aws.job_description import failure_message
from batchmark.changes.alerts.records import Alert
from batchmark.changes.records import Cause
from batchmark.checks.leak_records import GuardReport, Resource
from batchmark.checks.records import Check, EnvironmentCheck
from batchmark.command_line import main
from batchmark.core.clusters.cluster import Cluster
from batchmark.core.clusters.multi_node import MultiNode
from batchmark.core.config import Config
from batchmark.core.own_jobs import ComparisonRun, OwnJobRun, OwnJobs
from batchmark.core.run import RunPlan
from batchmark.core.version import Version
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.exports import csv
from batchmark.history.imports.file import ImportedFile
from batchmark.history.imports.measurement import ForeignMeasurement
from batchmark.report.changes.alert_message import MessageContext, build_message
from batchmark.report.site.compare import Comparison
from batchmark.report.terminal.rows import render_comparison
from batchmark.runs.own_jobs.sides import Side
from batchmark_job.result.document import Device, ResultDocument, ResultError, parse_document
from batchmark_job.result.metric import MetricLine
from batchmark_job.result.printable import printable
from batchmark_job.result.scaling_options import ScalingOptions, ScalingRun
from batchmark_job.result.sharing_options import SharingOptions
from tests.builders.alerts import NOW, change, merged, point, run_id, series
from tests.builders.history import BUCKET, REGION, ResultBucket, two_targets
from tests.builders.hostile import STEERING, inside, paths_in
from tests.builders.reports import report_of, terminal
from tests.builders.runs import PRICES, build_run
from tests.builders.watched_jobs import described
from tests.stand_ins.bucket import MemoryBucket

# What people or other machines write. All that we store is made of these.
INPUTS = (
    *(ResultDocument, MetricLine, Config, OwnJobs, MultiNode, Cluster, Side, ImportedFile, Alert),
    *(RunPlan, SharingOptions, ScalingOptions, ScalingRun, OwnJobRun, ComparisonRun, Version),
)
PROGRAMS = ("command", "check", "parameters", "environment")
# Any text by their nature: a program's, a file's, and forms that a record of their own reads.
ANY_TEXT = {
    *(("OwnJob", "command"), ("OwnJob", "check"), ("OwnJob", "parameters")),
    *((model, name) for model in ("Side", "OwnJobPlan") for name in PROGRAMS),
    *(("ImportedFile", "text"), ("ImportedFile", "benchmarks_text")),
    *(("ComparisonRun", "sides"), ("ScalingRun", "study")),
}


def texts_of(annotation, metadata=()):
    """What is asked of each text in a type."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *metadata = typing.get_args(annotation)
    if annotation is str:
        yield metadata
    elif typing.get_origin(annotation) is not typing.Literal:
        for part in typing.get_args(annotation):
            yield from texts_of(part)


def models_of(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from models_of(part)


def with_parts(models):
    found = list(models)
    for model in found:
        for field in model.model_fields.values():
            found += [one for one in models_of(field.annotation) if one not in found]
    return found


TEXTS = [
    pytest.param(typing.Annotated[str, *asked] if asked else str, id=f"{model.__name__}.{name}")
    for model in with_parts(INPUTS)
    for name, field in model.model_fields.items()
    for asked in texts_of(field.annotation, field.metadata)
    if (model.__name__, name) not in ANY_TEXT
]


@pytest.mark.parametrize("text", TEXTS)
def test_each_text_of_an_input_is_refused_or_shown_in_a_line(text):
    try:
        taken = TypeAdapter(text).validate_python(f"a{STEERING}")
    except ValidationError:
        return
    assert taken == printable(taken)


def with_all_texts(document, text):
    """A document with `text` behind all texts that can have it."""
    found, changed = json.loads(document.to_json()), set()
    for *above, name in [*paths_in(found)]:
        parent = inside(found, above)
        before = parent[name]
        if not isinstance(before, str):
            continue
        parent[name] = before + text
        try:
            parse_document(json.dumps(found))
        except ResultError as error:
            assert_plain(str(error), 1)
            parent[name] = before
        else:
            changed.add(name)
    assert {"target", "workload", "reason", "cpu_model", "unit", "description"} <= changed
    for row in found["measurements"]:
        row["parameters"] = {f"b{text}": f"c{text}", **row["parameters"]}
    return json.dumps(found)


def assert_plain(text, lines, *, is_log=True):
    """So many lines, none of which steers; nor is one of a log an order."""
    assert len(text.splitlines()) == lines, text
    for line in text.splitlines():
        assert line == printable(line)
        assert not (is_log and (line.lstrip().startswith("::") or "##[" in line))


PLAIN = re.sub(r"[^a-z]+", "_", STEERING)


@cache
def run_with(text, day=0):
    """A run whose documents, plans and jobs have `text` behind all that people name."""
    jobs = []
    for job in two_targets(day).jobs:
        document = parse_document(with_all_texts(job.document, text))
        planned = job.planned.model_copy(update={"target": job.planned.target + text})
        update = {"planned": planned, "document": document, "log_stream": f"stream{text}"}
        jobs.append(job.model_copy(update=update | {"failure": f"failed{text}"}))
    return build_run(*jobs)


@cache
def compared(text):
    one, other = (
        Chosen(run_with(text, day), two_targets().jobs[0].planned.target + text, PRICES)
        for day in (0, 1)
    )
    return Comparison(one.label + text, other.label + text, side_by_side(one, other))


def on_a_terminal(text):
    console = Console(file=io.StringIO(), width=10_000)
    render_comparison(compared(text), console)
    return console.file.getvalue()


def message(text):
    names = ("suite", "target", "instance_type", "cpu_model", "gpu_model", "workload", "dtype")
    key = series(**{name: f"{name}{text}" for name in names})
    cause = Cause(name=f"image{text}", before=f"a{text}", after=f"b{text}", run_id=f"r{text}")
    moved = change(point(of=key), causes=(cause,), fell_back=(f"target{text}",), usd_reason=text)
    logs, page = {(key.suite, key.target): f"https://a/{text}"}, f"https://b/{text}"
    context = MessageContext(f"lab{text}", text, page, logs, None, [text])
    made = {"run_id": run_id(30), "created_at": NOW, "channels": ("sns",)}
    return build_message(merged([moved]), (), context, **made)


def history_csv(text, folder):
    bucket = ResultBucket(MemoryBucket(BUCKET, REGION), [])
    bucket.history.append(run_with(text), PRICES, "run")
    path = folder / "history.csv"
    csv.write(bucket.history.tables(ALL_COLUMNS), path)
    return path.read_bytes().decode()


def alarm(text):
    fields = {"kind": "job", "since": NOW, "verdict": "leaked", "action": text}
    leak = Resource(id=f"id{text}", what=f"name{text}", reason=f"reason{text}", **fields)
    lab = {"installation": f"lab{text}", "region": "here", "looked_at": NOW}
    return GuardReport(resources=(leak, leak), **lab).alarm()


def failed_checks(text):
    check = Check(name=f"a{text}", target=f"b{text}", status="fail", seen=f"c{text}", remedy=text)
    lab = {"installation": f"lab{text}", "region": "here", "checked_at": NOW}
    return EnvironmentCheck(checks=(check, check), **lab).failures()


def failed_job(text):
    container = {"reason": f"reason{text}", "logStreamName": f"stream{text}"}
    job = described("FAILED", code=1, container=container, jobName=f"a{text}", statusReason=text)
    return failure_message(job, [f"a line{text}", f"another{text}"], f"problem{text}")


TO_LOGS = {
    "alarm": lambda text, _: alarm(text),
    "failed checks": lambda text, _: failed_checks(text),
    "failed job": lambda text, _: failed_job(text),
    "report on a terminal": lambda text, _: terminal(report_of(run_with(text)), 10_000),
    "comparison on a terminal": lambda text, _: on_a_terminal(text),
}
EXITS = TO_LOGS | {
    "Markdown": lambda text, _: compared(text).as_markdown(),
    "CSV of a comparison": lambda text, _: compared(text).as_csv(),
    "CSV of the history": history_csv,
    "e-mail": lambda text, _: message(text).text,
    "subject": lambda text, _: message(text).subject,
    "alert as JSON": lambda text, _: message(text).opened[0].model_dump_json(indent=2),
}


@pytest.mark.parametrize("way_out", EXITS)
def test_hostile_text_gives_as_many_lines_as_plain_text(way_out, tmp_path):
    plain, hostile = (EXITS[way_out](text, tmp_path) for text in (PLAIN, STEERING))
    assert_plain(hostile, len(plain.splitlines()), is_log=way_out in TO_LOGS)


def test_the_command_line_prints_as_many_lines_of_any_files(tmp_path, monkeypatch, capsys):
    for name, value in (("COLUMNS", "10000"), ("LINES", "25")):  # so that no line is broken
        monkeypatch.setenv(name, value)
    lines = []
    for text in (PLAIN, STEERING.replace("\0", "")):
        folders = []
        for day, side in enumerate(("old", "new")):
            folder = tmp_path / f"{side}{text}"
            folder.mkdir()
            job = two_targets(day).jobs[0]
            document = job.document.model_copy(update={"job_id": f"job-{day}"})
            (folder / "a.json").write_text(with_all_texts(document, text))
            (folder / "b.txt").write_text("")
            folders.append(str(folder))
        summary = tmp_path / "summary.md"
        main(["compare", *folders, "--gate", "--markdown", str(summary)])
        main(["compare", folders[0], f"{folders[1]}/b.txt"])
        main(["compare", folders[0], f"{folders[1]}/none"])
        told = capsys.readouterr()
        lines.append((told.out, told.err, summary.read_text()))
    for plain, hostile in zip(*lines, strict=True):
        assert_plain(hostile, len(plain.splitlines()))


def test_a_measurement_of_another_tool_is_shown_in_lines():
    names = {f"a{STEERING}": [f"b{STEERING}", {f"c{STEERING}": 1}]}
    found = ForeignMeasurement("", f"e{STEERING}", names, f"d{STEERING}", NOW, reason=STEERING)
    row = found.row(target=f"f{STEERING}", device=Device.CPU, raw_key="raw")
    texts = [value for value in row.values() if isinstance(value, str)]
    texts.append(json.dumps(json.loads(row["parameters"]), ensure_ascii=False))
    assert [printable(text) for text in texts] == texts
    assert not re.search(r"\\[a-z]", texts[-1])
