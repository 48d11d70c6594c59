"""A job's output, line by line, in CloudWatch Logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moto.logs.exceptions import ResourceNotFoundException

from local_cloud.batch.job import now_milliseconds

if TYPE_CHECKING:
    from moto.logs.models import LogsBackend

MAX_EVENT_BYTES = 262_144 - 26  # CloudWatch counts 26 bytes for each event's overhead


@dataclass
class LogStream:
    """One container's log stream, which has one writer only."""

    backend: LogsBackend
    group: str
    name: str

    def create(self) -> None:
        """Create the stream, and the group where it doesn't exist yet."""
        self.backend.ensure_log_group(self.group)
        self.backend.ensure_log_stream(self.group, self.name)

    def clear(self) -> None:
        """Forget what was written: all of it is about to be written again."""
        self.create()
        self.backend.groups[self.group].streams[self.name].events.clear()

    def write(self, line: bytes, written_at: int | None = None) -> None:
        """Append one line, of now or of these epoch milliseconds.

        CloudWatch takes no empty events, nor do we once the group is gone.
        """
        message = line.decode("utf-8", errors="replace").rstrip("\r\n")
        if not message:
            return
        event = {"timestamp": written_at or now_milliseconds(), "message": message}
        try:
            self.backend.put_log_events(self.group, self.name, [event])
        except ResourceNotFoundException:
            return
