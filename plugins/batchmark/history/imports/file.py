"""Files imported from other tools, and the rows that they add to the history."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple, get_args

import pyarrow as pa
from pydantic import AwareDatetime, Field

from batchmark.analysis.published import TABLE
from batchmark.core.errors import HistoryError
from batchmark.core.record import Record
from batchmark.history.imports import (
    asv,
    github_action_benchmark,
    google_benchmark,
    hyperfine,
    nvbench,
    plain_csv,
    published_table,
    pyperf,
    pytest_benchmark,
)
from batchmark.history.imports.entry import TWICE, Entry, LeftOut, problem_of
from batchmark.history.imports.measurement import Contents, Parsed
from batchmark.history.parquet import encode_rows
from batchmark.history.rows import Row
from batchmark_job.result.document import Device
from batchmark_job.result.values import Shown

Format = Literal[
    "pytest-benchmark",
    "github-action-benchmark",
    "asv",
    "published-table",
    "google-benchmark",
    "nvbench",
    "pyperf",
    "hyperfine",
    "csv",
]
FORMATS: tuple[Format, ...] = get_args(Format)
FOLDER = "imports/"
# What a value of a wrong type or size can raise on its way to a row and a file.
INVALID_VALUE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    pa.ArrowException,
)
REMEDY = "correct the file or omit it"


class Reader(NamedTuple):
    keys: tuple[str, ...]  # that a file of this format has, and none of those below it
    parse: Callable[..., Contents]
    names_its_targets: bool = False  # its figures name the machines that they were measured on


READERS: dict[Format, Reader] = {
    "pytest-benchmark": Reader(("machine_info",), pytest_benchmark.parse),
    "github-action-benchmark": Reader(("entries",), github_action_benchmark.parse),
    "asv": Reader(("commit_hash",), asv.parse),
    "published-table": Reader(("repeated_speedup",), published_table.parse, names_its_targets=True),
    "google-benchmark": Reader(("context", "benchmarks"), google_benchmark.parse),
    "nvbench": Reader(("devices", "benchmarks"), nvbench.parse),
    "pyperf": Reader(("benchmarks", "version"), pyperf.parse),
    "hyperfine": Reader(("results",), hyperfine.parse),
    "csv": Reader((), plain_csv.parse),  # recognised before its text is read
}


class ImportedFile(Record):
    """An imported file, stored as `imports/<SHA-256>.json` so that a rebuild can reread it."""

    schema_version: Literal[1] = 1
    format: Format
    target: Shown = Field(min_length=1, description="target that its rows belong to")
    device: Device = Field(description="device that was measured")
    file_name: Shown
    text: str = Field(description="content of the file")
    benchmarks_text: str | None = Field(
        default=None, description="asv's benchmarks.json, with units and parameter names"
    )
    commit: Shown | None = Field(
        default=None, description="commit for entries that don't specify one"
    )
    recorded_at: AwareDatetime | None = Field(default=None, description="like commit")

    @property
    def name(self) -> str:
        """The content's digest, so that a copy under another file name isn't imported again."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def key(self) -> str:
        return f"{FOLDER}{self.name}.json"

    def parse(self) -> Parsed:
        """Parse the file's measurements, recording the entries that were skipped.

        Raises:
            HistoryError: the file is not in its declared format.
        """
        left_out = LeftOut()
        documents = [Entry(_load(self.text, self.file_name), left_out)]
        if self.format == "asv":
            benchmarks = _load(self.benchmarks_text or "{}", "benchmarks.json")
            documents.append(Entry(benchmarks, left_out, "benchmarks.json"))
        try:
            contents = READERS[self.format].parse(*documents)
            return Parsed.of(contents, left_out, self.commit, self.recorded_at)
        except (ValueError, RecursionError) as error:
            raise HistoryError(
                f"{self.file_name} can't be read as {self.format}: {problem_of(error)}; {REMEDY}"
            ) from error

    def rows(self, parsed: Parsed | None = None) -> list[Row]:
        """Return one row per measurement; pass `parsed` if `parse` has already been called.

        Raises the same errors as `parse`.
        """
        parsed, key = parsed or self.parse(), self.key
        return [
            measurement.row(target=self.target, device=self.device, raw_key=key)
            for measurement in parsed.measurements
        ]

    def files(self, parsed: Parsed | None = None) -> dict[str, bytes]:
        """Return the history files that this file adds, by key; for `parsed`, see `rows`.

        Raises:
            HistoryError: the file isn't in its declared format, or exceeds a history file's limits.
        """
        rows = self.rows(parsed)
        try:
            return encode_rows(rows, self.name)
        except INVALID_VALUE as error:
            raise HistoryError(
                f"{self.file_name} can't be imported: {error!r:.300}; {REMEDY}"
            ) from error


def published_file() -> ImportedFile:
    """Return the published table shipped with Batchmark; its rows name targets and devices."""
    return ImportedFile(
        format="published-table",
        target="published-table",
        device=Device.CUDA,
        file_name=TABLE.name,
        text=TABLE.read_text(),
    )


def detect(text: str, name: str) -> Format:
    """Detect a file's format.

    Raises:
        HistoryError: the file can't be parsed, or matches none of FORMATS.
    """
    document = _load(text, name)
    if _json_of(text) is None:
        return "csv"
    for file_format, reader in READERS.items():
        if reader.keys and isinstance(document, dict) and document.keys() >= {*reader.keys}:
            return file_format
    raise HistoryError(
        f"{name} is not in a supported format ({', '.join(FORMATS)}); for github-action-benchmark, "
        "import its data.js instead of the benchmark tool's own output"
    )


def is_beside_results(text: str, name: str) -> bool:
    """Return whether a file is one of the asv files that contain no results.

    Raises:
        HistoryError: the file is neither JSON nor CSV.
    """
    return asv.is_beside_results(_load(text, name))


def _load(text: str, name: str) -> object:
    """Parse JSON, CSV, or the script loaded by github-action-benchmark's page.

    Raises:
        HistoryError: the file is none of these, or nested too deeply.
    """
    found = _json_of(text)
    try:
        if found is None:
            return plain_csv.lines(text)
        return json.loads(found, object_pairs_hook=_object, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        kind = "CSV" if found is None else "JSON"
        raise HistoryError(f"{name} is not valid {kind}: {error}; {REMEDY}") from error


def _json_of(text: str) -> str | None:
    """Return the part of a text that should be JSON, or None if there is no such part."""
    text = text.lstrip("\ufeff").strip()
    if text.startswith(github_action_benchmark.VARIABLE):
        return text.partition("=")[2].rstrip("; \n")
    return text if text.startswith(("{", "[")) else None


def _whole(digits: str) -> float:
    """Parse an integer; if int() rejects it as too long, return infinity, which `Entry` rejects."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Build a dict; a duplicate key maps to TWICE, since any of its values could be right."""
    found: dict[str, object] = {}
    for key, value in pairs:
        found[key] = TWICE if key in found else value
    return found
