"""What an own job's log tells, once it is whole: CloudWatch may show the last lines late."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import is_passing
from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import JobDescription, log_location
from batchmark.aws.job_log import marked_lines
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.check import ended_by_itself
from batchmark.runs.own_jobs.lines import NOT_KNOWN, Facts, Told, read_lines

READ_AGAIN_AFTER_SECONDS = (2.0, 4.0, 8.0, 15.0)
SETTLED_SECONDS = 10.0  # after its stop, the log of a job without a wrapper counts as whole
LATEST_SECONDS = 60.0  # after its stop, no job's lines are waited for

log = logging.getLogger(__name__)


def read_log(
    clients: Clients,
    plan: OwnJobPlan,
    job: JobDescription,
    *,
    on_aws: bool,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Told:
    """Read a finished job's marked lines; a log that may not be read tells nothing.

    In AWS it waits for lines that are still to come, half a minute at most.

    Raises:
        BotoCoreError, ClientError: CloudWatch Logs does not answer at the moment.
    """
    since_stop = clock() - job.get("stoppedAt", 0) / 1000
    if on_aws and not plan.shell and since_stop < SETTLED_SECONDS:
        sleep(min(SETTLED_SECONDS - since_stop, SETTLED_SECONDS))
    told = _read(clients, plan, job)
    if since_stop > LATEST_SECONDS:
        return told
    for seconds in READ_AGAIN_AFTER_SECONDS if on_aws else (0.0,):
        # Whether a wrapper that reached its end has lines that the log does not show yet.
        if not (plan.shell and ended_by_itself(job) and told.is_known and not told.facts.is_over):
            break
        sleep(seconds)
        told = _read(clients, plan, job)
    return told


def _read(clients: Clients, plan: OwnJobPlan, job: JobDescription) -> Told:
    """Its metrics; facts only of the wrapper, as others may print such lines, too."""
    location = log_location(job)
    if location is None:
        return NOT_KNOWN
    try:
        told = read_lines(marked_lines(clients("logs"), location))
    except (BotoCoreError, ClientError) as error:
        if is_passing(error):
            raise
        log.warning("What job %s told is not known: %s", job["jobId"], error)
        return NOT_KNOWN
    return told if plan.shell else replace(told, facts=Facts())
