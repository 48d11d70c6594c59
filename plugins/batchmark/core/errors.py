"""Errors raised by the plugins."""

import difflib
from collections.abc import Iterable

from batchmark_job.result.printable import printable


def error_summary(error: BaseException) -> str:
    """Summarise an unexpected error in one line."""
    return printable(f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:500]}")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Build the end of an error message: suggest the closest known name, and list all of them."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=1)
    asked = f" (did you mean {close[0]}?)" if close else ""
    return f"{asked}; known: {', '.join(names) or 'none'}"


class BatchmarkError(Exception):
    """The base class for Batchmark's errors; the messages state the bad value and how to fix it."""


class ConfigError(BatchmarkError):
    """The published configuration is missing or unusable."""


class PlanError(BatchmarkError):
    """The requested run can't be planned."""


class BudgetError(PlanError):
    """A run could exceed a cost cap."""


class CollectError(BatchmarkError):
    """Results are missing or can't be used."""


class NoiseError(BatchmarkError):
    """Noise can't be estimated from the given jobs, or a stored noise table can't be read."""


class PriceError(BatchmarkError):
    """Prices are unavailable or unusable."""


class HistoryError(BatchmarkError):
    """Another tool's result can't be imported, or the history can't be exported."""


class ClusterError(BatchmarkError):
    """A Kubernetes cluster lacks a resource that a run needs, or is too slow to provide it."""


class LayerError(BatchmarkError):
    """A run's file system could not be created, or was not deleted in time."""


class DiagnosisError(BatchmarkError):
    """A question of a diagnosis can't be answered."""


class AlertError(BatchmarkError):
    """An alert can't be read, changed or sent, or the alert settings are unusable."""


class GitHubError(BatchmarkError):
    """A GitHub request failed, or the workflow's event or settings are unusable."""
