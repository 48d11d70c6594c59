"""What an own job's log tells, once it is whole: CloudWatch may show the last lines late."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import is_passing
from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import JobDescription, log_location
from batchmark.aws.job_log import marked_lines
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.check import was_stopped
from batchmark.runs.own_jobs.lines import Facts, Told, read_lines

READ_AGAIN_AFTER_SECONDS = (2.0, 4.0, 8.0, 15.0)
SETTLED_SECONDS = 10.0  # after its stop, the log of a job without a wrapper counts as whole

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
    settling = job.get("stoppedAt", 0) / 1000 + SETTLED_SECONDS - clock()
    if on_aws and not plan.shell and settling > 0:
        sleep(min(settling, SETTLED_SECONDS))
    told = _read(clients, plan, job)
    for seconds in READ_AGAIN_AFTER_SECONDS if on_aws else (0.0,):
        if not is_to_tell_more(plan, job, told.facts):
            break
        sleep(seconds)
        told = _read(clients, plan, job)
    return told


def is_to_tell_more(plan: OwnJobPlan, job: JobDescription, facts: Facts) -> bool:
    """Whether a wrapper that reached its end has lines that the log does not show yet."""
    ended = job.get("container", {}).get("exitCode") is not None and not was_stopped(job)
    if not plan.shell or not ended:
        return False
    if facts.exit_code is None:
        return True
    if facts.exit_code != 0 or facts.check_exit_code:
        return False
    told_output = facts.no_sha256 or facts.output_sha256
    return bool((plan.check and facts.check_exit_code is None) or (plan.output and not told_output))


def _read(clients: Clients, plan: OwnJobPlan, job: JobDescription) -> Told:
    """Its metrics; facts only of the wrapper, as others may print such lines, too."""
    location = log_location(job)
    if location is None:
        return Told(Facts())
    try:
        told = read_lines(marked_lines(clients("logs"), location))
    except (BotoCoreError, ClientError) as error:
        if is_passing(error):
            raise
        log.warning("What job %s told is not known: %s", job["jobId"], error)
        return Told(Facts())
    return told if plan.shell else told._replace(facts=Facts())
