"""Another tool's file, as the result bucket stores it, and the rows it adds to the history."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple, get_args

import pyarrow as pa
from pydantic import Field

from batchmark.analysis.published import TABLE
from batchmark.core.errors import HistoryError
from batchmark.core.record import Record
from batchmark.history.columns import SCHEMA
from batchmark.history.imports import (
    asv,
    github_action_benchmark,
    published_table,
    pytest_benchmark,
)
from batchmark.history.imports.measurement import Contents, Parsed
from batchmark.history.parquet import encode_rows
from batchmark.history.rows import Row
from batchmark_job.result.document import Device
from batchmark_job.result.values import Shown

Format = Literal["pytest-benchmark", "github-action-benchmark", "asv", "published-table"]
FORMATS: tuple[Format, ...] = get_args(Format)
FOLDER = "imports/"
# What a value of a wrong type or size can raise on its way to a row and a file.
INVALID_VALUE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    pa.ArrowException,
)
REMEDY = "correct the file or leave it out"


class Reader(NamedTuple):
    key: str  # that only this format has
    parse: Callable[..., Contents]
    names_its_targets: bool = False  # its figures name the machines that they were measured on


READERS: dict[Format, Reader] = {
    "pytest-benchmark": Reader("machine_info", pytest_benchmark.parse),
    "github-action-benchmark": Reader("entries", github_action_benchmark.parse),
    "asv": Reader("result_columns", asv.parse),
    "published-table": Reader("repeated_speedup", published_table.parse, names_its_targets=True),
}


class ImportedFile(Record):
    """Stored as `imports/<SHA-256>.json`, so that a rebuild gives the same rows."""

    schema_version: Literal[1] = 1
    format: Format
    target: Shown = Field(min_length=1, description="target that its rows are attributed to")
    device: Device = Field(description="device that it measured")
    file_name: Shown
    text: str = Field(description="content of the file")
    benchmarks_text: str | None = Field(
        default=None, description="asv's benchmarks.json, with units and parameters' names"
    )

    @property
    def name(self) -> str:
        """Digest of the content: the same for a copy under another name."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def key(self) -> str:
        return f"{FOLDER}{self.name}.json"

    def parse(self) -> Parsed:
        """Return the file's measurements.

        Raises:
            HistoryError: the file does not have its format.
        """
        document = _load(self.text, self.file_name)
        benchmarks = _load(self.benchmarks_text or "{}", "benchmarks.json")
        documents = (document, benchmarks) if self.format == "asv" else (document,)
        try:
            return Parsed.of(READERS[self.format].parse(*documents))
        except INVALID_VALUE as error:
            raise HistoryError(
                f"{self.file_name} is not a file of {self.format}: {error!r}; {REMEDY}"
            ) from error

    def rows(self) -> list[Row]:
        """Return a row per measurement; raises what parse raises."""
        return [
            measurement.row(target=self.target, device=self.device, raw_key=self.key)
            for measurement in self.parse().measurements
        ]

    def files(self) -> dict[str, bytes]:
        """Return its files of the history by key.

        Raises:
            HistoryError: the file does not have its format, or a value does not fit its column.
        """
        rows: list[Row] = []
        try:
            rows = self.rows()
            return encode_rows(rows, self.name)
        except INVALID_VALUE as error:
            raise HistoryError(
                f"{self.file_name} can't be imported: {_misfit(rows) or repr(error)}; {REMEDY}"
            ) from error


def published_file() -> ImportedFile:
    """The table that ships with Batchmark; its rows name their targets and devices."""
    return ImportedFile(
        format="published-table",
        target="published-table",
        device=Device.CUDA,
        file_name=TABLE.name,
        text=TABLE.read_text(),
    )


def _misfit(rows: Sequence[Row]) -> str | None:
    """Return a message on the first value that its column can't hold."""
    for row in rows:
        for column in SCHEMA:
            try:
                pa.scalar(row.get(column.name), column.type)
            except INVALID_VALUE:
                value = f"{row[column.name]!a:.100}"
                return f"{column.name} of {row['workload']!a:.100} is {value}, not {column.type}"
    return None


def _load(text: str, name: str) -> Any:
    """Parse a JSON file, or the script that github-action-benchmark's page loads.

    Raises:
        HistoryError: it is neither, or nested too deeply.
    """
    text = text.lstrip("\ufeff").strip()
    if text.startswith(github_action_benchmark.VARIABLE):
        text = text.partition("=")[2].rstrip("; \n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{name} is not JSON: {error}; {REMEDY}") from error


def detect(text: str, name: str) -> Format:
    """Return the format of a file.

    Raises:
        HistoryError: it is none of FORMATS.
    """
    document = _load(text, name)
    for file_format, reader in READERS.items():
        if isinstance(document, dict) and reader.key in document:
            return file_format
    raise HistoryError(
        f"{name} has none of the formats {', '.join(FORMATS)}; of github-action-benchmark, "
        "data.js can be imported, not a benchmark's output"
    )
