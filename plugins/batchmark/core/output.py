"""Text on its way out: nothing in it adds a line, steers a terminal or is taken for an order."""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import re
import sys
from collections.abc import Iterable
from typing import NoReturn

from batchmark_job.result.printable import printable

# A log takes these for orders where a line begins with one between colons: GitHub's runner all of
# them (ActionCommandManager.cs of actions/runner), Airflow's pages the groups. They are broken up
# anywhere, as a table may break a line anywhere. Runners of Azure, GitHub and TeamCity take
# "##vso[", "##[error]" and "##teamcity[" anywhere, too.
ORDERS = (
    *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group"),
    *("internal-set-repo-path", "notice", "remove-matcher", "save-state", "set-env", "set-output"),
    *("stop-commands", "warning"),
)
_ORDER = re.compile(rf":(?=:(?:{'|'.join(ORDERS)})(?: |::))|##(?=[a-z]*\[)", re.IGNORECASE)
MARKUP = "\\`*_{}[]<>|#!&~"  # of Markdown
# How a cell begins that a spreadsheet computes: in full width, too, and behind what it skips.
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")


def line(text: str) -> str:
    """Text for a terminal or a log, in one line, without orders to what reads the log."""
    return _ORDER.sub(r"\g<0>\\", _printed(text))


def in_lines(texts: Iterable[str]) -> str:
    """A text of so many lines."""
    return "\n".join(map(line, texts))


def markdown(text: str) -> str:
    """Text for Markdown, in one line, that ends no cell, begins no markup and calls nobody."""
    plain = line(" ".join(text.split()))
    escaped = "".join(f"\\{sign}" if sign in MARKUP else sign for sign in plain)
    return re.sub(r"@(?=\w)", "@<!-- -->", escaped)  # no backslash keeps GitHub from calling a name


def cell(value: object) -> object:
    """A cell for CSV, in one line; a text that a spreadsheet would take for a formula is quoted.

    By an apostrophe, as OWASP recommends: https://owasp.org/www-community/attacks/CSV_Injection.
    Numbers stay numbers, those in a text, too.
    """
    if not isinstance(value, str):
        return value
    begins = any(text.startswith(FORMULA) for text in (value, value.lstrip()))
    return ("'" if begins and not _is_number(value) else "") + _printed(value)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, each in a line, with `cell` of each value."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(cell, row) for row in rows)
    return out.getvalue()


def _printed(text: str) -> str:
    """In a line; the bytes of a path that are no text are question marks."""
    return printable(text.encode(errors="replace").decode())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def say(text: str, *, error: bool = False) -> None:
    """Print a line."""
    print(line(text), file=sys.stderr if error else sys.stdout)


class Parser(argparse.ArgumentParser):
    """One whose error is a line, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(line(message))


def percent(text: str) -> float:
    """An option's value."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of percent, such as 5")
    return value


def drop_output() -> None:
    """Once its reader has gone, who has read enough; Python would complain when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
