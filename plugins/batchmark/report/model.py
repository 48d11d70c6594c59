"""A run's report: the comparison, plus any changes found in the history."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import AwareDatetime, Field, model_validator

from batchmark.analysis.comparison import Comparison
from batchmark.core import formatting
from batchmark.report.change_records import AlertBoard, ChangesSection
from batchmark_job.result.document import Device

# History of the report's JSON, newest first. One of version 2 to 6 is read as one of version 7.
#   7  (2026-12) studies by name, instead of a key for each kind of study
#   6  (2026-12) jobs that were not written for Batchmark
#   5  (2026-12) nodes that measured together
#   4  (2026-12) tasks that shared a device
#   3  (2026-12) what changed against the history, and alerts
#   2  (2026-11) crossovers, cold starts (key `ledgers`), noise, roofline and flags of rows, rivals'
#      trials, telemetry
#   1  (2026-11) first version
REPORT_VERSION: Final = 7
STUDIES_OF_VERSION_6 = ("sharing", "scaling", "own_jobs")


class Report(Comparison):
    report_version: Literal[2, 3, 4, 5, 6, 7] = REPORT_VERSION
    created_at: AwareDatetime
    changes: ChangesSection | None = Field(
        default=None, description="null if the history was not searched"
    )
    alerts: AlertBoard | None = Field(default=None, description="null if the alerts were not read")
    jobs_file: str | None = Field(
        default=None, description="Terraform inputs with the user's own jobs; null if unknown"
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, stored: Any) -> Any:
        """Convert a report from an older version, which has one key per kind of study."""
        if not isinstance(stored, dict) or "studies" in stored:
            return stored
        read = dict(stored)
        studies = {name: read.pop(name, ()) for name in STUDIES_OF_VERSION_6}
        return read | {"studies": {name: found for name, found in studies.items() if found}}

    @property
    def when(self) -> str:
        """When the run began or, if that is unknown, when it was reported."""
        told = formatting.moment(self.began_at or self.created_at)
        return told if self.began_at else f"reported {told}"

    @property
    def suites(self) -> tuple[str, ...]:
        found = [pair.suite for pair in self.pairs] + [one.suite for one in self.studied]
        return tuple(dict.fromkeys(found))

    @property
    def fell_back(self) -> set[str]:
        """GPU targets whose jobs fell back to the CPU."""
        paired = {pair.gpu.target for pair in self.pairs if pair.cpu_fallback}
        studied = [study.target for study in self.studied]
        return paired | {
            one.target for one in studied if (one.device, one.actual_device) == ("cuda", Device.CPU)
        }

    @property
    def tells_of_changes(self) -> bool:
        """Whether changes and alerts need more detail than the first screen gives."""
        is_open, found = self.alerts and self.alerts.lines, self.changes
        told = found and (not found.too_early or found.notes or found.confirmations)
        return bool(is_open or told)


def build_report(
    comparison: Comparison,
    *,
    created_at: datetime,
    changes: ChangesSection | None = None,
    alerts: AlertBoard | None = None,
) -> Report:
    """Combine a run's comparison with any changes and alerts found in the history."""
    compared = {name: getattr(comparison, name) for name in Comparison.model_fields}
    return Report(**compared, created_at=created_at, changes=changes, alerts=alerts)


def render_json(report: Report) -> str:
    """Render a report as JSON, with its version and notices first."""
    first = {"report_version": report.report_version, "notices": report.notices}
    return json.dumps(first | report.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
