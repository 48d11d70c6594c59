"""The machine behind all instances, and the instances that several jobs share.

A job normally takes the resources it requires from the machine, as if it had its own instance. If a
compute environment can never have more than one instance, its jobs share that instance, up to its
vCPUs and memory, even if the machine has fewer vCPUs. The instance takes its vCPUs and GPUs from
the machine (all vCPUs if the machine has fewer), so that no other jobs disturb measurements. Each
of its jobs takes its own memory from the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moto.batch.models import ComputeEnvironment
from moto.ec2.models.instance_types import INSTANCE_TYPES

from local_cloud.batch.ecs.instances import size_of
from local_cloud.batch.jobs.resources import Allocation, Requirements
from local_cloud.batch.scheduling.pool import Pool, Reservation

# None means AWS's default, BEST_FIT. All others may exceed maxvCpus by one instance.
EXACT_STRATEGIES = ("BEST_FIT", None)


@dataclass
class Instance:
    """A shared instance: its free resources, its share of the machine, and its number of jobs."""

    room: Pool
    held: Allocation
    jobs: int = 0


class Machine:
    """Allocates resources to jobs. Not thread-safe: callers must hold the scheduler's lock."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        # shared instances by the ARN of their environment
        self._instances: dict[str, Instance] = {}

    @property
    def is_full(self) -> bool:
        """Whether no job can start: no vCPU is free and there is no shared instance."""
        return self.pool.free_vcpus <= 0 and not self._instances

    def can_ever_hold(self, environment: ComputeEnvironment, needed: Requirements) -> bool:
        size = only_instance(environment)
        fits = size is None or needed.within(size)
        return fits and self.pool.can_ever_hold(self.claim(environment, needed))

    def claim(self, environment: ComputeEnvironment, needed: Requirements) -> Requirements:
        """Return what a job takes from the machine if it is the first one on its instance."""
        size = only_instance(environment)
        if size is None:
            return needed
        return Requirements(min(size.vcpus, self.pool.vcpus), needed.memory_mib, size.gpus)

    def take(
        self, environment: ComputeEnvironment, needed: Requirements, reserved: Reservation
    ) -> Allocation | None:
        """Allocate what the job needs, or reserve what is missing; see Pool.take."""
        size = only_instance(environment)
        if size is None:
            return self.pool.take(needed, reserved)
        if not needed.within(size):
            return None
        arn = environment.arn
        instance = self._instances.get(arn)
        if instance is None:
            claimed = self.pool.take(self.claim(environment, needed), reserved)
            if claimed is None:
                return None
            instance = self._start(arn, size, claimed)
        elif arn in reserved.instances or not instance.room.can_hold(needed):
            reserved.instances.add(arn)
            return None
        elif self.pool.take(memory_of(needed), reserved) is None:
            return None
        return self._add(arn, instance, needed, instance.room.free_gpu_ids[: needed.gpus])

    def take_again(
        self, environment: ComputeEnvironment, needed: Requirements, gpu_ids: tuple[str, ...]
    ) -> Allocation:
        size = only_instance(environment)
        if size is None:
            return self.pool.allocate(needed, gpu_ids)
        arn = environment.arn
        instance = self._instances.get(arn)
        if instance is None:
            claimed = self.pool.allocate(self.claim(environment, needed), gpu_ids)
            instance = self._start(arn, size, claimed)
        else:
            self.pool.allocate(memory_of(needed), ())
        return self._add(arn, instance, needed, gpu_ids)

    def _start(self, arn: str, size: Requirements, claimed: Allocation) -> Instance:
        """Start a shared instance; it holds its vCPUs and GPUs until its last job ends."""
        room = Pool(size.vcpus, size.memory_mib, 0)
        room.free_gpu_ids = list(claimed.gpu_ids)
        claim = claimed.requirements
        held = Allocation(Requirements(claim.vcpus, 0, claim.gpus), claimed.gpu_ids)
        self._instances[arn] = Instance(room, held)
        return self._instances[arn]

    def _add(
        self, arn: str, instance: Instance, needed: Requirements, gpu_ids: Sequence[str]
    ) -> Allocation:
        placed = instance.room.allocate(needed, gpu_ids)
        instance.jobs += 1
        return Allocation(placed.requirements, placed.gpu_ids, arn, instance.held.gpu_ids)

    def give_back(self, allocation: Allocation) -> None:
        if allocation.instance is None:
            self.pool.give_back(allocation)
            return
        instance = self._instances[allocation.instance]
        instance.room.give_back(allocation)
        self.pool.give_back(Allocation(memory_of(allocation.requirements), ()))
        instance.jobs -= 1
        if instance.jobs == 0:
            self.pool.give_back(instance.held)
            del self._instances[allocation.instance]


def memory_of(needed: Requirements) -> Requirements:
    return Requirements(memory_mib=needed.memory_mib)


def only_instance(environment: ComputeEnvironment) -> Requirements | None:
    """Return the size of the one instance an environment can have, or None if that isn't fixed."""
    resources = environment.compute_resources
    types = resources.get("instanceTypes") or []
    if (
        resources.get("type") != "EC2"
        or resources.get("allocationStrategy") not in EXACT_STRATEGIES
        or len(types) != 1
        or types[0] not in INSTANCE_TYPES
    ):
        return None
    found = size_of(types[0])
    return found if found.vcpus <= int(resources["maxvCpus"]) < 2 * found.vcpus else None
