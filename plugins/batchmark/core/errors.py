"""Errors raised by the plugins."""

import difflib
from collections.abc import Iterable

from batchmark_job.result.printable import printable


def unexpected(error: BaseException) -> str:
    """One line on an error that nobody foresaw, for the loss of what it happened to."""
    return printable(f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:500]}")


def meant(given: str, known: Iterable[str]) -> str:
    """What else there is, with the nearest first, for the end of a sentence."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=1)
    asked = f" (did you mean {close[0]}?)" if close else ""
    return f"{asked}; known: {', '.join(names) or 'none'}"


class BatchmarkError(Exception):
    """Base class; a message states the value seen and the fix."""


class ConfigError(BatchmarkError):
    """The published configuration is missing or can't be used."""


class PlanError(BatchmarkError):
    """The requested run can't be planned."""


class BudgetError(PlanError):
    """A run could exceed a cap on its cost."""


class CollectError(BatchmarkError):
    """A job left no usable result."""


class NoiseError(BatchmarkError):
    """Noise can't be estimated from these jobs, or a stored table can't be read."""


class PriceError(BatchmarkError):
    """Prices are not available or can't be used."""


class HistoryError(BatchmarkError):
    """Another tool's result can't be imported, or the history can't be exported."""


class ClusterError(BatchmarkError):
    """A Kubernetes cluster lacks what a run needs, or does not give it in time."""


class LayerError(BatchmarkError):
    """A run's file system does not come up, or is not gone in time."""


class DiagnosisError(BatchmarkError):
    """A diagnosis can't be started."""


class AlertError(BatchmarkError):
    """An alert can't be read, changed or sent, or the settings of alerts can't be used."""


class GitHubError(BatchmarkError):
    """GitHub, or what a workflow asks it by, does not do what is needed."""
