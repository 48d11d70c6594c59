"""The task of the DAG own_job_schedule, which finds users' jobs that are due and not running."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from airflow.sdk import Context
from airflow.timetables.trigger import CronTriggerTimetable
from croniter import CroniterError, croniter

from batchmark.aws.result_bucket import RunStore
from batchmark.core import formatting
from batchmark.core.config import Config
from batchmark.core.errors import PlanError
from batchmark.core.kinds import OWN_JOB_DAG
from batchmark.core.own_jobs import scheduled_run_id
from batchmark.orchestration.settings import load_config, load_own_jobs
from batchmark.orchestration.tasks.leaks import LIVE_RUN
from batchmark.orchestration.telling import fail_if_refused, tell

MINUTES = 15  # from one look to the next
EARLIER_RUNS = 50  # by the schedule, that may still wait for their turn


def find_due(context: Context) -> list[dict[str, Any]]:
    """Return arguments for each run to start: one per job that came due and isn't still running.

    A job that came due several times since the last check runs only once. Run ids contain the job
    and the time, so a retry doesn't start any run twice.
    """
    now = context["dag_run"].run_after
    since = context.get("prev_data_interval_end_success") or now - timedelta(minutes=MINUTES)
    found = []
    with fail_if_refused(context):
        config = load_config()
        due = {
            name: times
            for name, job in load_own_jobs().jobs.items()
            if job.schedule and (times := latest_times(name, job.schedule, now))[0] > since
        }
        measuring = _measuring(context, config, now) if due else set()
        for name, (at, *earlier) in due.items():
            ids = [scheduled_run_id(name, each) for each in earlier]
            if name in measuring or _live(context, *ids):
                tell(f"{name} was due at {at:%H:%M} UTC but is still running; not started again")
            else:
                tell(f"{name} was due at {formatting.moment(at)}")
                run_id = scheduled_run_id(name, at)
                found.append({"trigger_run_id": run_id, "conf": {"job": name}})
    return found


def latest_times(name: str, schedule: str, now: datetime) -> list[datetime]:
    """Return the most recent times at which a job was due, up to `now`, latest first.

    Raises:
        PlanError: the schedule is invalid, or no run is ever due.
    """
    expression = CronTriggerTimetable(schedule, timezone="UTC").summary  # that of a preset, too
    try:
        # What is due right now counts.
        times = croniter(expression, now.astimezone(UTC) + timedelta(seconds=1))
        return list(islice(times.all_prev(datetime), 1 + EARLIER_RUNS))
    except CroniterError as error:
        raise PlanError(
            f"the schedule of own job {name} is {schedule!r}, which Airflow rejects ({error}): in "
            "Terraform's own_jobs, set it to @daily, @weekly or a cron expression such as '0 3 * "
            "* 1', and run `terraform apply`"
        ) from error


def _live(context: Context, *run_ids: str) -> bool:
    count = context["ti"].get_dr_count(dag_id=OWN_JOB_DAG, run_ids=list(run_ids), states=LIVE_RUN)
    return bool(count)


def _measuring(context: Context, config: Config, now: datetime) -> set[str]:
    """Return the users' jobs being measured by live runs, whether scheduled or started by hand.

    Only this month's bookings count, plus last month's on the first day of the month.
    """
    from batchmark.runs.spending import month_spending, spending_key

    store = RunStore.of(config, context["run_id"])
    keys = {spending_key(store, at) for at in (now, now - timedelta(days=1))}
    booked = [run for key in keys for run in month_spending(store, key).runs.values()]
    live = [run.run_id for run in booked if not run.finished and _live(context, run.run_id)]
    return {name for run_id in live if (name := RunStore.of(config, run_id).plan().own_job)}
