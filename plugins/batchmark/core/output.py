"""Sanitises output: no extra lines, terminal escapes or workflow commands get through."""

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

# Workflow commands, recognised at the start of a line between colons: GitHub's runner knows all of
# them (ActionCommandManager.cs of actions/runner), Airflow's pages the groups. They are broken up
# anywhere, as a table may break a line anywhere. Runners of Azure, GitHub and TeamCity recognise
# "##vso[", "##[error]" and "##teamcity[" anywhere, too.
ORDERS = (
    *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group"),
    *("internal-set-repo-path", "notice", "remove-matcher", "save-state", "set-env", "set-output"),
    *("stop-commands", "warning"),
)
_ORDER = re.compile(rf":(?=:(?:{'|'.join(ORDERS)})(?: |::))|##(?=[a-z]*\[)", re.IGNORECASE)
MARKUP = "\\`*_{}[]<>|#!&~"  # of Markdown
# Prefixes of cells that a spreadsheet evaluates, also in full width, or after skipped whitespace.
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")


def line(text: str) -> str:
    """Make text safe for a terminal or log: one line, without workflow commands."""
    return _ORDER.sub(r"\g<0>\\", _printed(text))


def in_lines(texts: Iterable[str]) -> str:
    """Join lines after making each one safe."""
    return "\n".join(map(line, texts))


def markdown(text: str) -> str:
    """Escape text for Markdown: one line, no cell breaks, no markup, no mentions."""
    plain = line(" ".join(text.split()))
    escaped = "".join(f"\\{sign}" if sign in MARKUP else sign for sign in plain)
    return re.sub(r"@(?=\w)", "@<!-- -->", escaped)  # no backslash keeps GitHub from calling a name


def cell(value: object) -> object:
    """Make a one-line CSV cell; text that a spreadsheet would read as a formula is quoted.

    The quote is an apostrophe, as OWASP recommends:
    https://owasp.org/www-community/attacks/CSV_Injection. Numbers, even as text, stay numbers.
    """
    if not isinstance(value, str):
        return value
    begins = any(text.startswith(FORMULA) for text in (value, value.lstrip()))
    return ("'" if begins and not _is_number(value) else "") + _printed(value)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as CSV, one per line, passing each value through `cell`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(cell, row) for row in rows)
    return out.getvalue()


def _printed(text: str) -> str:
    """Make text printable on one line; undecodable bytes, as in paths, become '?'."""
    return printable(text.encode(errors="replace").decode())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def say(text: str, *, error: bool = False) -> None:
    """Print text as a single safe line."""
    print(line(text), file=sys.stderr if error else sys.stdout)


class Parser(argparse.ArgumentParser):
    """An argument parser that prints each error on one safe line."""

    def error(self, message: str) -> NoReturn:
        super().error(line(message))


def percent(text: str) -> float:
    """Parse a percentage given as a command-line option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid percentage: use a number such as 5"
        )
    return value


def drop_output() -> None:
    """Discard output after the pipe's reader has closed it, so Python doesn't complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
