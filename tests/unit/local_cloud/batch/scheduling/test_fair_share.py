"""Which share's job is next, and how many vCPUs stay free for other shares."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from local_cloud.batch.jobs.resources import Requirements
from local_cloud.batch.scheduling import fair_share
from local_cloud.batch.scheduling.fair_share import FairShares, Use

POOL_VCPUS = 8


@dataclass(eq=False)
class Job:
    sequence: int
    submission: SimpleNamespace


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(fair_share, "time", made)
    return made


def make_queue(policy=None, *, max_vcpus=8, arn="queue"):
    policy = {"shareDecaySeconds": 0, "computeReservation": 0, "shareDistribution": []} | (
        policy or {}
    )
    backend = SimpleNamespace(
        _scheduling_policies={"arn": SimpleNamespace(fairshare_policy=policy)}
    )
    environment = SimpleNamespace(compute_resources={"maxvCpus": max_vcpus})
    return SimpleNamespace(
        arn=arn, backend=backend, schedule_policy="arn", environments=[environment]
    )


def make_jobs(queue, *shares, vcpus=1, priorities=None):
    """Jobs in the order of their age."""
    return [
        Job(
            number,
            SimpleNamespace(
                queue=queue,
                share_identifier=share,
                scheduling_priority=(priorities or {}).get(number, 0),
                requirements=Requirements(vcpus=vcpus),
            ),
        )
        for number, share in enumerate(shares)
    ]


def started(shares, jobs):
    """The numbers of the jobs as they start, where the pool holds all of them."""
    order = []
    for job in shares.arrange(jobs, POOL_VCPUS):
        shares.begin(job)
        order.append(job.sequence)
    return order


def test_shares_take_turns(clock):
    assert started(FairShares(), make_jobs(make_queue(), *"aaabb")) == [0, 3, 1, 4, 2]


def test_a_lower_weight_gets_more(clock):
    weights = [{"shareIdentifier": "b*", "weightFactor": 0.5}]
    queue = make_queue({"shareDistribution": weights})
    jobs = make_jobs(queue, "a", "a", "b1", "b1", "b1", "b1")
    assert started(FairShares(), jobs) == [0, 2, 3, 1, 4, 5]


def test_within_a_share_the_priority_decides_then_the_age(clock):
    jobs = make_jobs(make_queue(), *"aaab", priorities={1: 1, 2: 1, 3: 9})
    assert started(FairShares(), jobs) == [1, 3, 2, 0]


def test_what_a_share_has_used_counts_less_and_less_until_the_window_has_passed(clock):
    shares, queue = FairShares(), make_queue({"shareDecaySeconds": 700})
    (earlier,) = make_jobs(queue, "a", vcpus=8)
    shares.begin(earlier)
    clock.now += 100
    shares.end(earlier)
    jobs = make_jobs(queue, *"ab")
    assert [job.sequence for job in shares.arrange(jobs, POOL_VCPUS)] == [1, 0]
    clock.now += 700
    assert [job.sequence for job in shares.arrange(jobs, POOL_VCPUS)] == [0, 1]


@pytest.mark.parametrize(
    ("began", "ended", "vcpus"),
    [(0, 100, 2.0), (50, 100, 1.5), (0, 50, 0.5), (-100, 50, 0.5), (-100, 0, 0.0)],
)
def test_the_average_weighs_the_late_more(began, ended, vcpus):
    assert Use("a", 2, began, ended).average(100, 100) == pytest.approx(vcpus)


@pytest.mark.parametrize(
    ("shares", "order"), [("aaaaaaaa", [0, 1, 2, 3]), ("aaaaaaab", [0, 7, 1, 2, 3, 4])]
)
def test_a_reservation_keeps_vcpus_for_shares_that_are_not_active(clock, shares, order):
    jobs = make_jobs(make_queue({"computeReservation": 50}), *shares)
    assert started(FairShares(), jobs) == order


def test_a_job_above_the_reservation_runs_alone(clock):
    jobs = make_jobs(make_queue({"computeReservation": 50}), *"aa", vcpus=6)
    assert started(FairShares(), jobs) == [0]


def test_queues_without_a_policy_keep_their_places(clock):
    plain = SimpleNamespace(arn="plain", schedule_policy=None)
    jobs = make_jobs(make_queue(), *"aab")
    jobs[1:1] = make_jobs(plain, None)
    assert list(FairShares().arrange(jobs, POOL_VCPUS))[1] is jobs[1]
    assert [job.submission.share_identifier for job in jobs] == ["a", None, "a", "b"]


def test_nothing_more_starts_once_the_unreserved_vcpus_are_held(clock):
    queue = make_queue({"computeReservation": 50})
    jobs = make_jobs(queue, *"a" * 20)
    shares = FairShares()
    assert len(started(shares, jobs)) == 4
    assert list(shares.arrange(jobs[4:], POOL_VCPUS)) == []
