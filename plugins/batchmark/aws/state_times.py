"""Finds when jobs became RUNNABLE and STARTING, which DescribeJobs does not report.

Batch's events do include these times, and an EventBridge rule created by Terraform logs them.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.boto_clients import all_pages

STATE_CHANGE = "Batch Job State Change"

log = logging.getLogger(__name__)


def state_times(
    logs: Any,
    group: str | None,
    job_ids: Collection[str],
    *,
    created_at: datetime,
    stopped_at: datetime,
) -> dict[str, dict[str, datetime | None]]:
    """Return when each job last became RUNNABLE and STARTING, to the second, as StoredJob fields.

    The times come from `group`, the log group of EventBridge's rule. A time is None if its event is
    missing or the log can't be read. `created_at` is when the first job was created, and
    `stopped_at` is when the last one stopped.
    """
    seen: dict[str, dict[str, datetime]] = defaultdict(dict)
    try:
        if group and job_ids:
            entries = all_pages(
                logs,
                "filter_log_events",
                "events",
                logGroupName=group,
                filterPattern=f'"{STATE_CHANGE}"',
                startTime=_milliseconds(created_at) - 1000,  # events have whole seconds
                endTime=_milliseconds(stopped_at) + 60_000,  # they arrive late
            )
            for entry in entries:
                _note(entry["message"], job_ids, seen)
    except (BotoCoreError, ClientError) as error:
        log.warning(
            "RUNNABLE and STARTING times are missing because %s can't be read: %s", group, error
        )
    fields = {"runnable_at": "RUNNABLE", "starting_at": "STARTING"}
    return {
        job_id: {name: seen[job_id].get(status) for name, status in fields.items()}
        for job_id in job_ids
    }


def _note(message: str, job_ids: Collection[str], seen: dict[str, dict[str, datetime]]) -> None:
    try:
        event = json.loads(message)
        detail = event["detail"]
        # Children of an array job name their parent's id too.
        if event["detail-type"] == STATE_CHANGE and detail["jobId"] in job_ids:
            at = datetime.fromisoformat(event["time"])
            of_job = seen[detail["jobId"]]
            of_job[detail["status"]] = max(at, of_job.get(detail["status"], at))
    except (ValueError, KeyError, TypeError) as error:
        log.warning("Skipping an unreadable Batch event (%r): %.200s", error, message)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
