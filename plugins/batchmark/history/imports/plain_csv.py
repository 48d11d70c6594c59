"""Reads a CSV file that has a header and one line per figure or sample."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from batchmark.analysis.samples import parameters_json
from batchmark.history.imports.entry import Entry, MisfitError, grouped_repetitions
from batchmark.history.imports.measurement import (
    Contents,
    ForeignMeasurement,
    Unit,
    figures_or_reason,
    sample_figures,
)
from batchmark.history.rows import Row
from batchmark_job.result.values import Parameter

NEEDED = ("name", "value", "unit")
SAMPLE = "sample"
COLUMNS = (*NEEDED, "higher_is_better", "commit", "date", SAMPLE)
DELIMITERS = ",;\t"  # spreadsheets write the second where numbers have a decimal comma
REST = "cells right of the last column"  # in place of their header


def lines(text: str) -> dict[str, dict[str, object]]:
    """Return each line's values by column, keyed by the line's position in the file.

    Raises:
        ValueError: the file has no usable header, or is not CSV.
    """
    text = text.lstrip("\ufeff")
    head = text.lstrip().partition("\n")[0]
    reader = csv.DictReader(
        io.StringIO(text, newline=""),
        restkey=REST,
        strict=True,
        delimiter=max(DELIMITERS, key=head.count),
    )
    try:
        header = [_column(name) for name in next(filter(any, reader.reader), [])]
        while header and not header[-1]:  # spreadsheets write empty columns, too
            header.pop()
        reader.fieldnames = header
        if missing := [name for name in NEEDED if name not in header]:
            raise ValueError(
                f"its header does not contain {', '.join(missing)}, and it is not JSON either"
            )
        if twice := [name for name, count in Counter(header).items() if count > 1]:
            raise ValueError(f"its header contains {', '.join(map(repr, twice))} more than once")
        return {
            f"line {reader.line_num - _breaks(line)}": cells
            for line in reader
            if any((cells := _cells(line)).values())
        }
    except csv.Error as error:
        raise ValueError(f"line {reader.reader.line_num}: {error}") from error


def _column(name: str) -> str:
    """Normalise a column name; known names are matched regardless of case."""
    name = name.strip()
    known = name.casefold()
    return known if known in COLUMNS else name


def _cells(line: Mapping[str, str | list[str]]) -> dict[str, object]:
    """Strip a line's cells; keep any beyond the header only if at least one has text."""
    cells: dict[str, object] = {
        name: cell.strip() for name, cell in line.items() if isinstance(cell, str)
    }
    if any(cell.strip() for cell in line.get(REST, ())):
        cells[REST] = line[REST]
    return cells


def _breaks(line: Mapping[str, object]) -> int:
    """Return the number of line breaks inside a line's cells."""
    return sum(str(cell).count("\n") for cell in line.values())


def parse(document: Entry) -> Contents:
    """Yield every benchmark, merging lines that differ only in their value and sample number."""
    found = defaultdict[tuple[object, ...], list[Entry]](list)
    for _, line in document.items("name"):
        with line.alone():
            if line.at(REST).value is not None:
                raise MisfitError(line.place, "has more cells than the header")
            parameters = parameters_json(_parameters(line))
            known = [line.at(name).value for name in COLUMNS if name not in ("value", SAMPLE)]
            found[*known, parameters].append(line)
    for alike in found.values():
        for samples in grouped_repetitions(alike, SAMPLE):
            first = samples[0]
            with first.alone():
                higher_is_better = first.optional(Entry.flag, "higher_is_better")
                unit = Unit.of(first.at("unit").text(), higher_is_better)
                yield ForeignMeasurement(
                    workload=first.at("name").text(),
                    parameters=_parameters(first) | unit.parameters,
                    commit=first.optional(Entry.text, "commit"),
                    recorded_at=first.optional(Entry.moment, "date"),
                    **figures_or_reason(first, _figures, unit, samples),
                )


def _parameters(line: Entry) -> dict[str, Parameter]:
    """Return a line's parameters: all non-empty columns other than COLUMNS."""
    return {
        name: line.at(name).scalar()
        for name, value in line.fields().items()
        if name not in COLUMNS and value
    }


def _figures(_first: Entry, unit: Unit, samples: Sequence[Entry]) -> Row:
    return sample_figures([unit.sample(one.at("value")) for one in samples])
