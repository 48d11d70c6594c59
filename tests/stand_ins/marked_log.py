"""A log of which CloudWatch finds the marked lines."""

from types import SimpleNamespace

from botocore.exceptions import ClientError

from tests.builders.watched_jobs import STARTED


class NotFoundError(ClientError):
    """Is raised as botocore's own is: by name."""


class MarkedLog:
    """Answers FilterLogEvents with these lines, each time with the next ones, and GetLogEvents.

    Without a filter, FilterLogEvents answers `all_lines`.

    Attributes:
        failures: raised by the next calls.
        all_lines: what GetLogEvents answers.
    """

    exceptions = SimpleNamespace(ResourceNotFoundException=NotFoundError)

    def __init__(self, *shown):
        self.shown = list(shown) or [[]]
        self.failures = []
        self.all_lines = ["boom"]

    def filter_log_events(self, **asked):
        if self.failures:
            raise self.failures.pop(0)
        lines = self.all_lines
        if "filterPattern" in asked:
            lines = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        events = [{"timestamp": STARTED + n, "message": line} for n, line in enumerate(lines)]
        return {"events": events}

    def get_log_events(self, **_):
        events = [{"message": line} for line in self.all_lines]
        return {"events": events, "nextBackwardToken": "the same"}
