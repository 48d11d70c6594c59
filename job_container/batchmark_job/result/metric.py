"""Metric lines, which any job can write to a file or standard output to report metrics.

Each line is a JSON object: in the file named by the variable BATCHMARK_METRICS, or after PREFIX on
standard output. `make schema` exports MetricLine as `metric-line.schema.json`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError
from pydantic_core import from_json

from batchmark_job.result.printable import printable
from batchmark_job.result.values import IN_A_LINE, Model

VERSION: Final = 1
PREFIX = "BATCHMARK_METRIC "  # prefix of a metric line on standard output
FILE_VARIABLE = "BATCHMARK_METRICS"
MOST_CHARACTERS = 2_000  # of a line
MOST_LINES = 10_000  # lines of a job; later ones are counted, not kept

MetricName = Annotated[str, Field(max_length=80, pattern=r"^[A-Za-z][A-Za-z0-9_.:/ -]*$")]
Unit = Annotated[
    str, Field(max_length=40, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"), IN_A_LINE
]


class MetricLine(Model):
    """One value of a metric; each further line with the same name is another sample."""

    metric: MetricName
    value: Annotated[float, Field(ge=1e-9, le=1e9)] = Field(
        description="a number above 0, because values are compared by their ratios; use another "
        "unit if the value is out of bounds"
    )
    unit: Unit = Field(description="such as images/s; units that end in /s are rates")
    higher_is_better: bool
    version: Literal[1] = Field(default=VERSION, description="version of this format")


class MetricLineError(ValueError):
    """Raised for an unusable metric line; the message says why."""


def parse_metric_line(text: str) -> MetricLine:
    """Parse a metric line whose prefix has been removed.

    Raises:
        MetricLineError: the line is invalid.
    """
    if len(text) > MOST_CHARACTERS:
        raise MetricLineError(f"{len(text)} characters, but at most {MOST_CHARACTERS} are allowed")
    try:
        raw: Any = from_json(text.encode(), allow_inf_nan=False)
        pairs: Any = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise MetricLineError(f"not JSON: {error}") from error
    if isinstance(raw, dict) and len(pairs) > len(raw):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise MetricLineError(f"line: the key {twice[:80]!r} appears twice")
    try:
        return MetricLine.model_validate(raw, strict=True)
    except ValidationError as error:
        raise MetricLineError(_first_problem(error)) from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    where = printable(".".join(str(part) for part in first["loc"])) or "line"
    seen = "" if first["type"] == "missing" else f", not {str(first['input'])[:80]!r}"
    return f"{where}: {first['msg']}{seen}"


def json_schema() -> dict[str, Any]:
    return MetricLine.model_json_schema()
