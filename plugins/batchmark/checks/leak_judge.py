"""Judges resources found by the leak guard, based on their age and the run that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from batchmark.aws.boto_clients import Clients
from batchmark.aws.existing_jobs import instances
from batchmark.aws.file_systems import tags_of
from batchmark.checks.leak_records import Endable, LeakAges, Resource, RunName
from batchmark.core.names import DAG_TAG, INSTALLATION_TAG, RUN_ID_TAG, TARGET_TAG

RunState = Literal["live", "over", "unknown"]
# Asks Airflow about a run: unknown if this Airflow has none of that id.
AskRun = Callable[[RunName], RunState]


@dataclass(frozen=True)
class Judge:
    """Judges if resources have leaked, given clients, a run lookup, age limits and the time."""

    client: Clients
    ask_run: AskRun
    limits: LeakAges
    now: datetime

    def is_younger(self, seen: Resource, **age: float) -> bool:
        """Whether the resource is younger than an age such as `minutes=15`."""
        return self.now - seen.since < timedelta(**age)

    def leaked(self, seen: Resource, reason: str, endable: Endable, **age: float) -> Resource:
        """Mark a resource as leaked, or as new if it is younger than an age such as `hours=24`."""
        if self.is_younger(seen, **age):
            ((unit, amount),) = age.items()
            return seen.judged("new", f"It is younger than {amount:g} {unit}.")
        return seen.judged("leaked", reason, endable)

    def of_live_run(self, seen: Resource, run: RunName, hours: float, endable: Endable) -> Resource:
        """Judge a live run's own resource: in use until it is older than `hours`, then leaked."""
        if self.is_younger(seen, hours=hours):
            return seen
        reason = (
            f"Its run {run.run_id} has been live for over {hours:g} hours: cancel it "
            "if it is stuck."
        )
        return seen.judged("leaked", reason, endable)

    def running_instances(self, name: str, **tags: str) -> Iterator[Resource]:
        """List the installation's running instances, each marked as in use until it is judged."""
        tagged = {INSTALLATION_TAG: name} | tags
        filters = [{"Name": f"tag:{tag}", "Values": [value]} for tag, value in tagged.items()]
        filters.append({"Name": "instance-state-name", "Values": ["pending", "running"]})
        return map(_instance, instances(self.client("ec2"), Filters=filters))


def run_of(tags: Mapping[str, str]) -> RunName | None:
    """Return the run named by a resource's tags, or None if they don't name one."""
    run_id = tags.get(RUN_ID_TAG)
    return RunName(dag_id=tags.get(DAG_TAG), run_id=run_id) if run_id else None


def _instance(described: Mapping[str, Any]) -> Resource:
    return Resource(
        kind="instance",
        id=described["InstanceId"],
        what=f"{described['InstanceType']}, {described['State']['Name']}",
        target=tags_of(described).get(TARGET_TAG),
        since=described["LaunchTime"],
        verdict="in use",
        reason="",
    )


def unknown_run(run_id: str) -> str:
    return f"This Airflow has no run {run_id}: the run was deleted or belongs to another Airflow."
