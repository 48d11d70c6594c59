"""Keeps a job's rows, and writes the job's single document."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from batchmark_job.errors import OutputError, one_line, say
from batchmark_job.formatting import count
from batchmark_job.machine.inventory import Machine
from batchmark_job.machine.telemetry import Telemetry
from batchmark_job.measuring.marks import JobMarks
from batchmark_job.measuring.measured_row import MeasuredRow
from batchmark_job.output import FileOutput, document_name
from batchmark_job.progress import has_figures
from batchmark_job.result.document import Ceiling, Measurement, MeasurementStatus, ResultDocument
from batchmark_job.result.values import BY_HAND
from batchmark_job.settings import JobSettings
from batchmark_job.table import lines

EXIT_ROW_FAILED = 1


@dataclass
class Recorder:
    """Writes the job's document exactly once, however the job ends."""

    settings: JobSettings
    machine: Machine
    marks: JobMarks
    telemetry: Telemetry
    rows: Sequence[MeasuredRow]
    ceilings: tuple[Ceiling, ...] = ()
    _closing: threading.Lock = field(default_factory=threading.Lock)
    _written: threading.Event = field(default_factory=threading.Event)

    def close(self) -> int:
        """Write the complete document, summarise it, and return the exit code."""
        if not self._closing.acquire(blocking=False):
            threading.Event().wait()  # an interruption is writing and will end the process
        measured = [row.measurement for row in self.rows if row.measurement]
        failed = sum(row.status is MeasurementStatus.FAILED for row in measured)
        try:
            document = self._document("complete", measured)
            self._write(document, hurried=False)
        finally:
            self._written.set()
        say("\n".join(["", *lines(document)]))
        nothing = "" if any(map(has_figures, measured)) else "nothing could be measured"
        failures = f"{failed} of {count(len(measured), 'row')} failed" if failed else ""
        if nothing or failures:
            say(f"batchmark-job: {': '.join(filter(None, (nothing, failures)))}")
        # A Batch target may have no row at all: a GPU-only workload on a CPU target.
        return EXIT_ROW_FAILED if failed or (nothing and self.settings.job_id == BY_HAND) else 0

    def interrupt(self, received: signal.Signals) -> int:
        """Write all rows begun, unless close() is already writing; return the exit code."""
        if not self._closing.acquire(blocking=False):
            say(
                f"batchmark-job: {received.name} arrived while the complete document was being "
                "written"
            )
            self._written.wait()
            return 128 + received
        self._write_partial(received.name, MeasurementStatus.INTERRUPTED, hurried=True)
        return 128 + received

    def abandon(self, error: BaseException) -> None:
        """After an error outside any row, write all rows begun; unfinished ones count as failed."""
        if not self._closing.acquire(blocking=False):
            threading.Event().wait()  # an interruption is writing and will end the process
        try:
            self._write_partial(one_line(error), MeasurementStatus.FAILED, hurried=False)
        finally:
            self._written.set()

    def _write_partial(self, cause: str, status: MeasurementStatus, *, hurried: bool) -> None:
        rows = [row.interrupt(cause, status) for row in self.rows if row.begun]
        say(f"batchmark-job: {cause}: writing the {count(len(rows), 'row')} measured so far")
        try:
            self._write(self._document("interrupted", rows), hurried=hurried)
        except OutputError as error:
            say(f"batchmark-job: {error}")

    def _document(
        self, status: Literal["complete", "interrupted"], measurements: list[Measurement]
    ) -> ResultDocument:
        started_at = self.marks.process_started_at
        finished_at = datetime.now(UTC)
        return ResultDocument(
            run_id=self.settings.run_id,
            job_id=self.settings.job_id,
            job_attempt=self.settings.job_attempt,
            target=self.settings.target,
            suite=self.settings.suite,
            requested_device=self.settings.requested_device,
            actual_device=self.machine.device,
            status=status,
            started_at=started_at,
            finished_at=finished_at,
            total_seconds=(finished_at - started_at).total_seconds(),
            environment=self.machine.environment,
            measurements=tuple(measurements),
            marks=self.marks.document(),
            ceilings=self.ceilings,
            telemetry=self.telemetry.summary(),
            version=self.settings.version,
        )

    def _write(self, document: ResultDocument, *, hurried: bool) -> None:
        """Write to the output or, if that fails, to a local file and the log."""
        text = document.to_json() + "\n"
        try:
            self.settings.output.write(text, hurried=hurried)
        except OutputError as error:
            saved = _save_elsewhere(document, text)
            raise OutputError(f"{error}; the document is {saved}") from error
        say(f"batchmark-job: wrote {self.settings.output}")


def _save_elsewhere(document: ResultDocument, text: str) -> str:
    say("----- result document begins -----")
    say(text.rstrip())
    say("----- result document ends -----")
    name = f"batchmark-{document_name(document.job_id, document.job_attempt)}"
    spare = FileOutput(Path(tempfile.gettempdir()) / name)
    try:
        spare.write(text)
    except OutputError:
        return "above in this log"
    return f"above in this log and in {spare}"
