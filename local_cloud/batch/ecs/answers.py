"""ECS and EC2 responses that show Batch's jobs as tasks on instances.

Supported: DescribeTasks, DescribeContainerInstances, ListContainerInstances (one page, only the
filter `ec2InstanceId == `), and EC2's DescribeInstances by id, with type, zone and
`InstanceLifecycle`. DescribeInstances refuses filters together with ids, and without ids it omits
these instances. Not supported: ListTasks, services, tasks of other services, an instance's
resources and agent version, and statuses other than ACTIVE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from moto.batch.models import batch_backends
from moto.core.responses import ActionResult
from moto.ec2.exceptions import FilterNotImplementedError
from moto.ec2.models.instances import InstanceBackend
from moto.ecs.exceptions import InvalidParameterException
from moto.ecs.responses import EC2ContainerServiceResponse

from local_cloud.batch.ecs.instances import Instance, container_instance, ec2_instance, instances
from local_cloud.batch.ecs.tasks import Placed, placed_in, task

MOST_NAMED = 100  # limit of DescribeTasks and DescribeContainerInstances
BY_INSTANCE = re.compile(r"\s*ec2InstanceId\s*==\s*(i-[0-9a-f]+)\s*")


motos_reservations = InstanceBackend.get_reservations_by_instance_ids


class Reservation(dict[str, Any]):
    """An EC2 reservation for one instance; moto reads its `id`."""

    @property
    def id(self) -> str:
        return str(self["ReservationId"])


def placed(self: EC2ContainerServiceResponse) -> list[Placed]:
    """Return the requested cluster's containers, or raise ClusterNotFoundException."""
    cluster = self.ecs_backend._get_cluster(self._get_param("cluster", "default"))
    return placed_in(self.current_account, self.region, cluster.name)


def describe_tasks(self: EC2ContainerServiceResponse) -> ActionResult:
    known = {each.record.task_arn: each for each in placed(self) if each.remembered}
    found, failures = named(self, "tasks", "Tasks", known)
    return ActionResult({"tasks": [task(each) for each in found], "failures": failures})


def list_tasks(self: EC2ContainerServiceResponse) -> ActionResult:  # noqa: ARG001
    """Refuse the call, because moto would return an empty list."""
    raise InvalidParameterException(
        "The local cloud does not support ListTasks: use DescribeJobs to find the tasks"
    )


def describe_container_instances(self: EC2ContainerServiceResponse) -> ActionResult:
    known = {each.arn: each for each in instances(placed(self))}
    found, failures = named(self, "containerInstances", "Container Instances", known)
    ec2 = batch_backends[self.current_account][self.region].ec2_backend
    described = [container_instance(each, ec2) for each in found]
    return ActionResult({"containerInstances": described, "failures": failures})


def list_container_instances(self: EC2ContainerServiceResponse) -> ActionResult:
    """List the cluster's instances in one page, or none if the requested status is not ACTIVE.

    Of the cluster query language, only `ec2InstanceId == i-…` is supported.
    """
    found = instances(placed(self))
    if query := self._get_param("filter"):
        match = BY_INSTANCE.fullmatch(query)
        if match is None:
            raise InvalidParameterException(
                f"The local cloud supports only filters like 'ec2InstanceId == i-1', not {query!r}"
            )
        found = [each for each in found if each.ec2_id == match[1]]
    if self._get_param("status", "ACTIVE") != "ACTIVE":
        found = []
    return ActionResult({"containerInstanceArns": sorted(each.arn for each in found)})


def named(
    self: EC2ContainerServiceResponse, parameter: str, shown: str, known: Mapping[str, Any]
) -> tuple[list[Any], list[dict[str, str]]]:
    """Return the resources requested by ARN or id, and a failure for each unknown one."""
    asked = self._get_param(parameter) or []
    if not asked:
        raise InvalidParameterException(f"{shown} cannot be empty.")
    if len(asked) > MOST_NAMED:
        raise InvalidParameterException(f"{shown} can have at most {MOST_NAMED} items.")
    by_name = {name: one for arn, one in known.items() for name in (arn, id_of(arn))}
    missing = [name for name in asked if name not in by_name]
    failures = [{"arn": name, "reason": "MISSING"} for name in missing]
    return [by_name[name] for name in asked if name in by_name], failures


def id_of(arn: str) -> str:
    return arn.rpartition("/")[2]


def get_reservations_by_instance_ids(
    self: InstanceBackend, instance_ids: list[str], filters: Any = None
) -> list[Any]:
    """Return moto's reservations, plus those for any job instances requested by id."""
    ours = {each.ec2_id: each for each in all_instances(self)}
    asked = [ours[name] for name in instance_ids if name in ours]
    if asked and filters:
        raise FilterNotImplementedError(next(iter(filters)), "DescribeInstances")
    others = [name for name in instance_ids if name not in ours]
    found: list[Any] = motos_reservations(self, others, filters) if others else []
    return [*found, *(reservation(each, self) for each in asked)]


def all_instances(ec2: Any) -> Iterator[Instance]:
    """Yield the instances of all clusters in an EC2 backend's account and region."""
    account, region = ec2.account_id, ec2.region_name
    for environment in list(batch_backends[account][region]._compute_environments.values()):
        yield from instances(placed_in(account, region, environment.ecs_name))


def reservation(instance: Instance, ec2: Any) -> Reservation:
    name = instance.ec2_id.replace("i-", "r-", 1)
    described = ec2_instance(instance, ec2)
    return Reservation(ReservationId=name, OwnerId=ec2.account_id, Instances=[described])


REPLACED = (
    (EC2ContainerServiceResponse, describe_tasks),
    (EC2ContainerServiceResponse, list_tasks),
    (EC2ContainerServiceResponse, describe_container_instances),
    (EC2ContainerServiceResponse, list_container_instances),
    (InstanceBackend, get_reservations_by_instance_ids),
)


def install() -> None:
    for owner, function in REPLACED:
        setattr(owner, function.__name__, function)
