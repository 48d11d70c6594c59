"""Fair share: which share identifier of a queue is next, and what is kept free for others.

AWS does not say how it weighs usage. Here a share's usage is the vCPUs that its jobs hold now, and
those that they held on average in the policy's decay time, of which the last second counts most and
the first not at all. The share with the lowest usage times weight factor is next.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from moto.batch.models import JobQueue

from local_cloud.batch.jobs.job import Job
from local_cloud.gaps.batch.scheduling_policies import Policy, policy_of, weight

LEAST_DECAY_SECONDS = 600


@dataclass(frozen=True)
class Use:
    """What a finished attempt held, from when to when (seconds of the monotonic clock)."""

    share: str
    vcpus: float
    began: float
    ended: float

    def average(self, now: float, window: float) -> float:
        """Its vCPUs' average in the time before now, weighed from 0 to 1 towards the end."""
        oldest, newest = (min(max(now - end, 0.0), window) for end in (self.began, self.ended))
        weighed_seconds = (oldest - newest) - (oldest**2 - newest**2) / (2 * window)
        return self.vcpus * weighed_seconds / (window / 2)


@dataclass
class FairShares:
    """The past and present usage of all queues with a policy. The scheduler holds its lock."""

    _past: dict[str, list[Use]] = field(default_factory=lambda: defaultdict(list))
    _began: dict[str, dict[Job, float]] = field(default_factory=lambda: defaultdict(dict))

    def begin(self, job: Job) -> None:
        """Count a job that starts."""
        if job.submission.share_identifier:
            self._began[job.submission.queue.arn][job] = time.monotonic()

    def end(self, job: Job) -> None:
        """Count a job's attempt as past."""
        if job.submission.share_identifier:
            arn = job.submission.queue.arn
            self._past[arn].append(use_of(job, self._began[arn].pop(job)))

    def arrange(self, waiting: Sequence[Job], pool_vcpus: float) -> Iterator[Job]:
        """The waiting jobs in the order in which they may start.

        Jobs of queues with a policy swap places among themselves. Ask for the next one only after
        the last has begun, if it can.
        """
        by_queue: dict[str, list[Job]] = defaultdict(list)
        for job in waiting:
            if job.submission.share_identifier:
                by_queue[job.submission.queue.arn].append(job)
        turns = {
            arn: self._turns(jobs[0].submission.queue, jobs, pool_vcpus)
            for arn, jobs in by_queue.items()
        }
        for job in waiting:
            turn = turns.get(job.submission.queue.arn)
            following = job if turn is None else next(turn, None)
            if following is not None:
                yield following

    def _turns(self, queue: JobQueue, jobs: list[Job], pool_vcpus: float) -> Iterator[Job]:
        """A queue's waiting jobs by share; within one, by priority, then the oldest first."""
        policy = policy_of(queue)
        if policy is None:
            yield from jobs
            return
        past, running = self._past_usage(queue, policy), self._began[queue.arn]
        by_share: dict[str, list[Job]] = defaultdict(list)
        for job in sorted(jobs, key=place_in_share, reverse=True):
            by_share[str(job.submission.share_identifier)].append(job)
        held: dict[str, float] = defaultdict(float)
        for job in running:
            held[str(job.submission.share_identifier)] += job.submission.requirements.vcpus
        active = by_share.keys() | past.keys() | held.keys()
        allowed = unreserved(queue, policy, pool_vcpus, len(active))

        def usage(share: str) -> tuple[float, int]:
            used = held[share] + past[share]
            return weight(policy, share) * used, by_share[share][-1].sequence

        while by_share:
            total = sum(held.values())
            if total >= allowed:
                return
            share = min(by_share, key=usage)
            job = by_share[share].pop()
            vcpus = job.submission.requirements.vcpus
            if not by_share[share]:
                del by_share[share]
            if not total or total + vcpus <= allowed:
                yield job
            if job in running:
                held[share] += vcpus

    def _past_usage(self, queue: JobQueue, policy: Policy) -> dict[str, float]:
        """The vCPUs that each share's jobs, ended or not, held on average in the decay time."""
        now, window = time.monotonic(), decay_seconds(policy)
        past = [use for use in self._past.get(queue.arn, []) if use.ended > now - window]
        self._past[queue.arn] = past
        running = [use_of(job, began) for job, began in self._began[queue.arn].items()]
        usage: dict[str, float] = defaultdict(float)
        for use in [*past, *running]:
            usage[use.share] += use.average(now, window)
        return usage


def use_of(job: Job, began: float) -> Use:
    """What a job has held from its begin until now."""
    share, vcpus = str(job.submission.share_identifier), job.submission.requirements.vcpus
    return Use(share, vcpus, began, time.monotonic())


def place_in_share(job: Job) -> tuple[int, int]:
    return -job.submission.scheduling_priority, job.sequence


def decay_seconds(policy: Policy) -> float:
    return float(policy["shareDecaySeconds"] or LEAST_DECAY_SECONDS)


def unreserved(queue: JobQueue, policy: Policy, pool_vcpus: float, active_shares: int) -> float:
    """The vCPUs that a queue's active shares may hold together, where some are kept for others."""
    if not policy["computeReservation"]:
        return math.inf
    limits = [vcpus for vcpus in map(most_vcpus, queue.environments) if vcpus is not None]
    if not limits:
        return math.inf
    reserved = (policy["computeReservation"] / 100) ** max(1, active_shares)
    return float(min(pool_vcpus, sum(limits)) * (1 - reserved))


def most_vcpus(environment: Any) -> int | None:
    """The vCPUs of a compute environment; None for an unmanaged one that does not say."""
    resources = environment.compute_resources
    vcpus = resources["maxvCpus"] if resources else getattr(environment, "unmanaged_vcpus", None)
    return None if vcpus is None else int(vcpus)
