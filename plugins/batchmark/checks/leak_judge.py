"""How the leak guard judges whatever it finds: by its age, and by the run that it names."""

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
    """Who is asked of resources and runs, and which age counts by now."""

    client: Clients
    ask_run: AskRun
    limits: LeakAges
    now: datetime

    def is_younger(self, seen: Resource, **age: float) -> bool:
        """Whether it is younger than an age such as `minutes=15`."""
        return self.now - seen.since < timedelta(**age)

    def leaked(self, seen: Resource, reason: str, endable: Endable, **age: float) -> Resource:
        """The resource as a leak, or as new if it is younger than an age such as `hours=24`."""
        if self.is_younger(seen, **age):
            ((unit, amount),) = age.items()
            return seen.judged("new", f"It is younger than {amount:g} {unit}.")
        return seen.judged("leaked", reason, endable)

    def of_live_run(self, seen: Resource, run: RunName, hours: float, endable: Endable) -> Resource:
        """What a run has stood up for itself: in use for so many hours, as `seen` says."""
        if self.is_younger(seen, hours=hours):
            return seen
        reason = (
            f"Its run {run.run_id} is live for more than {hours:g} hours: cancel it if it hangs."
        )
        return seen.judged("leaked", reason, endable)

    def running_instances(self, name: str, **tags: str) -> Iterator[Resource]:
        """The installation's instances; each counts as in use until it is judged."""
        tagged = {INSTALLATION_TAG: name} | tags
        filters = [{"Name": f"tag:{tag}", "Values": [value]} for tag, value in tagged.items()]
        filters.append({"Name": "instance-state-name", "Values": ["pending", "running"]})
        return map(_instance, instances(self.client("ec2"), Filters=filters))


def run_of(tags: Mapping[str, str]) -> RunName | None:
    """The run that a resource's tags name."""
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
    return f"This Airflow has no run {run_id}: it was deleted, or is another Airflow's."
