"""A file of another tool, as the result bucket keeps it, and the rows it adds to the history."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
from pydantic import Field

from batchmark.exceptions import HistoryError
from batchmark.history.columns import SCHEMA
from batchmark.history.imports import asv, github_action_benchmark, pytest_benchmark
from batchmark.history.parquet import files_of
from batchmark.record import Record
from batchmark_job.result import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchmark.history.imports.measurement import Parsed
    from batchmark.history.rows import Row

Format = Literal["pytest-benchmark", "github-action-benchmark", "asv"]
FORMATS: tuple[Format, ...] = get_args(Format)
FOLDER = "imports/"
# What a value of another type, or out of all bounds, raises on its way to a row and a file.
UNFIT = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    pa.ArrowException,
)
REMEDY = "correct the file or leave it out"
# What only one of the formats has.
SIGNS: dict[Format, str] = {
    "pytest-benchmark": "machine_info",
    "github-action-benchmark": "entries",
    "asv": "result_columns",
}


class ImportedFile(Record):
    """Kept as `imports/<SHA-256>.json`, so that a rebuild makes the same rows of it."""

    schema_version: Literal[1] = 1
    format: Format
    target: str = Field(min_length=1, description="what its rows are said to have run on")
    device: Device = Field(description="that it measured")
    file_name: str
    text: str = Field(description="the file itself")
    benchmarks_text: str | None = Field(
        default=None, description="asv's benchmarks.json, which tells units and parameters' names"
    )

    @property
    def name(self) -> str:
        """The same for the same file, whatever its name."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def key(self) -> str:
        return f"{FOLDER}{self.name}.json"

    def parse(self) -> Parsed:
        """What the file holds.

        Raises:
            HistoryError: it is not of its format.
        """
        document = load(self.text, self.file_name)
        beside = load(self.benchmarks_text or "{}", "benchmarks.json")
        try:
            if self.format == "asv":
                return asv.parse(document, beside)
            if self.format == "pytest-benchmark":
                return pytest_benchmark.parse(document)
            return github_action_benchmark.parse(document)
        except UNFIT as error:
            raise HistoryError(
                f"{self.file_name} is no file of {self.format}: {error!r}; {REMEDY}"
            ) from error

    def rows(self) -> list[Row]:
        """Raises as parse does."""
        return [
            one.row(target=self.target, device=self.device, raw_key=self.key)
            for one in self.parse().measurements
        ]

    def files(self) -> dict[str, bytes]:
        """What to write of it to the history, by key.

        Raises:
            HistoryError: it is not of its format, or a value fits in no column.
        """
        rows: list[Row] = []
        try:
            rows = self.rows()
            return files_of(rows, self.name)
        except UNFIT as error:
            raise HistoryError(
                f"{self.file_name} can't be imported: {_unfit(rows) or repr(error)}; {REMEDY}"
            ) from error


def _unfit(rows: Sequence[Row]) -> str | None:
    """The first value that its column can't hold."""
    for row in rows:
        for column in SCHEMA:
            try:
                pa.scalar(row.get(column.name), column.type)
            except UNFIT:
                value = f"{row[column.name]!a:.100}"
                return f"{column.name} of {row['workload']!a:.100} is {value}, no {column.type}"
    return None


def load(text: str, name: str) -> Any:
    """A JSON file, or the script that github-action-benchmark's page loads.

    Raises:
        HistoryError: it is neither, or nested too deeply.
    """
    text = text.lstrip("\ufeff").strip()
    if text.startswith(github_action_benchmark.VARIABLE):
        text = text.partition("=")[2].rstrip("; \n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{name} is no JSON: {error}; {REMEDY}") from error


def detect(text: str, name: str) -> Format:
    """Which tool wrote a file.

    Raises:
        HistoryError: none of those known here.
    """
    document = load(text, name)
    for one, sign in SIGNS.items():
        if isinstance(document, dict) and sign in document:
            return one
    raise HistoryError(
        f"{name} is of none of the formats {', '.join(FORMATS)}; of github-action-benchmark it is "
        "data.js that is read, not a benchmark's output"
    )
