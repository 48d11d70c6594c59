"""When Batch's jobs changed state: DescribeJobs keeps no time of RUNNABLE and STARTING.

Batch's events hold it; Terraform has EventBridge write them to a log group.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

STATE_CHANGE = "Batch Job State Change"
HARMLESS = {"ResourceNotFoundException", "AccessDeniedException"}

log = logging.getLogger(__name__)


class StateTimes(NamedTuple):
    """To the second; None where no event tells."""

    runnable_at: datetime | None = None
    starting_at: datetime | None = None


def state_times(
    logs: Any, group: str | None, *, job_id: str, created_at: datetime, stopped_at: datetime
) -> StateTimes:
    """The job's last change to RUNNABLE and to STARTING.

    Args:
        logs: a boto3 client, allowed to call FilterLogEvents on the group.
        group: where EventBridge writes; None where Terraform made none.
    """
    if group is None:
        return StateTimes()
    seen: dict[str, datetime] = {}
    try:
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group,
            filterPattern=f'"{job_id}"',
            startTime=_milliseconds(created_at) - 1000,  # events are to the second
            endTime=_milliseconds(stopped_at) + 60_000,  # they arrive late
        )
        for page in pages:
            for entry in page["events"]:
                event = json.loads(entry["message"])
                detail = event["detail"]
                # Children of an array job name their parent's id too.
                if event["detail-type"] == STATE_CHANGE and detail["jobId"] == job_id:
                    at = datetime.fromisoformat(event["time"])
                    seen[detail["status"]] = max(at, seen.get(detail["status"], at))
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in HARMLESS:
            raise
        log.warning("No state times of job %s: %s of log group %s", job_id, code, group)
    return StateTimes(seen.get("RUNNABLE"), seen.get("STARTING"))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
