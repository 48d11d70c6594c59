"""The shared watch, with a clock of its own, and the clients that it asks."""

import asyncio
import gc
import random
import threading

import pytest

from batchmark.orchestration.aws_clients import PATIENT_ATTEMPTS, AwsAccess, AwsClients
from batchmark.orchestration.operators.job_watch import Answer, JobWatch, shared_watch
from tests.stand_ins.batch import FakeBatch, FakeClients

INTERVAL = 5.0


class Batch:
    """Jobs with given ends, and a clock that only sleeping and describing move."""

    def __init__(self, problems=(), **ends):
        self.now = 0.0
        self.ends = ends
        self.calls = []
        self.running_calls = 0
        self.problems = list(problems)
        self.arrivals = []  # (time, function), in order

    async def describe(self, job_ids):
        assert self.running_calls == 0, "one call at a time"
        self.running_calls += 1
        await self.sleep(0.1)
        self.running_calls -= 1
        self.calls.append((self.now, list(job_ids)))
        if self.problems and (problem := self.problems.pop(0)):
            raise problem
        return {
            job_id: {"jobId": job_id, "status": self.status(job_id)}
            for job_id in job_ids
            if job_id in self.ends
        }

    def status(self, job_id):
        return "SUCCEEDED" if self.now >= self.ends[job_id] else "RUNNING"

    async def sleep(self, seconds):
        until = self.now + seconds
        while self.arrivals and self.arrivals[0][0] <= until:
            at, act = self.arrivals.pop(0)
            self.now = max(self.now, at)
            act()
            await let_others_run()
        self.now = max(self.now, until)
        await let_others_run()

    def watch(self):
        return JobWatch(self.describe, INTERVAL, sleep=self.sleep, clock=lambda: self.now)


async def let_others_run():
    for _ in range(5):
        await asyncio.sleep(0)


async def until_seen(batch, watch, job_id):
    """Wait as a trigger does; return when it sees the end."""
    while (answer := await watch.next(job_id)).job is None or answer.job["status"] != "SUCCEEDED":
        pass
    return batch.now


def test_a_thousand_jobs_take_ten_calls_per_round_and_no_end_is_seen_late():
    async def run():
        batch = Batch(**{f"job-{n}": random.Random(n).uniform(0, 60) for n in range(1000)})
        watch = batch.watch()
        seen = await asyncio.gather(*(until_seen(batch, watch, job_id) for job_id in batch.ends))
        return batch, [at - end for at, end in zip(seen, batch.ends.values(), strict=True)]

    batch, delays = asyncio.run(run())
    assert all(len(job_ids) <= 100 for _, job_ids in batch.calls)
    first_round = [job_ids for at, job_ids in batch.calls if at <= INTERVAL]
    assert [len(job_ids) for job_ids in first_round] == [100] * 10
    assert max(delays) <= 2 * INTERVAL
    spread = [at for at, _ in batch.calls[:10]]
    assert spread == pytest.approx([0.1 + 0.5 * n for n in range(10)])


def test_ends_are_seen_in_time_while_triggers_come_and_go():
    async def run():
        batch, chance = Batch(), random.Random(7)
        watch, tasks, delays, left = batch.watch(), [], [], {}

        async def follow(job_id):
            arrived = batch.now
            delays.append(await until_seen(batch, watch, job_id) - max(arrived, batch.ends[job_id]))

        def leave(job_id, task):
            left[job_id] = batch.now
            task.cancel()

        def arrive(job_id, leaves):
            task = asyncio.get_running_loop().create_task(follow(job_id))
            tasks.append(task)
            if leaves:
                at = batch.now + chance.uniform(0, 8)
                batch.arrivals.append((at, lambda: leave(job_id, task)))
                batch.arrivals.sort(key=lambda arrival: arrival[0])

        for number in range(400):
            job_id, at = f"job-{number}", chance.uniform(0, 50)
            batch.ends[job_id] = at + chance.uniform(-5, 30)
            batch.arrivals.append((at, lambda j=job_id, n=number: arrive(j, n % 4 == 0)))
        batch.arrivals.sort(key=lambda arrival: arrival[0])
        await batch.sleep(0.0)
        while batch.arrivals or any(not task.done() for task in tasks):
            if not any(not task.done() for task in tasks):
                await batch.sleep(1.0)  # nobody waits, so the watch does not move the clock
            await asyncio.sleep(0)
        stayed = [task for task in tasks if not task.cancelled()]
        await asyncio.gather(*stayed)
        return len(stayed), delays, batch.calls, left

    stayed, delays, calls, left = asyncio.run(run())
    assert len(delays) == stayed > 300
    assert max(delays) <= 2 * INTERVAL
    late = {job for at, asked in calls for job in asked if at > left.get(job, at) + INTERVAL}
    assert (late, len(left)) == (set(), 100), "nobody asks for whom nobody waits"


def answers(batch, *job_ids):
    """What a watch answers, asked for one after the other."""

    async def ask():
        watch = batch.watch()
        return [await watch.next(job_id) for job_id in job_ids]

    return asyncio.run(ask())


def test_the_watch_continues_after_an_outage_which_is_no_unknown_job(caplog):
    batch = Batch([RuntimeError("connection refused"), None], job=0.0)
    first, second = answers(batch, "job", "job")
    assert first == Answer(problem="connection refused")
    assert second.job["status"] == "SUCCEEDED"
    assert "Batch could not describe 1 jobs: connection refused" in caplog.text
    assert answers(Batch(), "unknown") == [Answer()]


def test_the_watch_rests_when_nobody_waits_and_starts_again():
    async def run():
        batch = Batch(one=0.0, two=0.0)
        watch = batch.watch()
        await watch.next("one")
        await batch.sleep(10 * INTERVAL)
        calls = len(batch.calls)
        await watch.next("two")
        return calls, len(batch.calls)

    assert asyncio.run(run()) == (1, 2)


ACCESS = AwsAccess(region_name="eu-west-1", botocore_config='{"max_pool_connections": 3}')


@pytest.fixture
def clients(monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    made = AwsClients(ACCESS)
    yield made
    for client in made._made.values():
        client.close()


def test_a_client_is_made_once_and_is_patient_but_for_submissions(clients):
    batch = clients("batch")
    assert clients("batch") is batch
    assert batch.meta.region_name == "eu-west-1"
    retries = batch.meta.config.retries
    assert (retries["mode"], retries["total_max_attempts"]) == ("adaptive", PATIENT_ATTEMPTS)
    assert batch.meta.config.max_pool_connections == 3
    once = clients("batch", attempts=1)
    assert once is not clients("batch")
    assert once.meta.config.retries["total_max_attempts"] == 1


def test_clients_are_shared_as_long_as_they_are_in_use():
    first = AwsClients.shared(ACCESS)
    assert AwsClients.shared(ACCESS) is first
    assert AwsClients.shared(AwsAccess(region_name="us-east-1")) is not first
    first_id = id(first)
    del first
    gc.collect()
    assert not any(id(left) == first_id for left in AwsClients._shared.values())


class Described(FakeClients):
    """Clients of their own access, which record the calling threads."""

    def __init__(self):
        super().__init__(batch=FakeBatch())
        self.access = AwsAccess(region_name=f"region-{id(self)}")
        self.threads = set()

    def __call__(self, service, *, attempts):
        self.threads.add(threading.current_thread().name)
        return super().__call__(service, attempts=attempts)


def test_all_triggers_of_a_triggerer_share_one_watch_that_blocks_none_of_them():
    clients = Described()
    job_id = clients.clients["batch"].add("any", "RUNNING")

    async def follow():
        first, second = shared_watch(clients, 0.01), shared_watch(clients, 0.01)
        assert second is first
        assert shared_watch(clients, 0.02) is not first
        answers = await asyncio.gather(first.next(job_id), second.next(job_id))
        return first, [answer.job["jobId"] for answer in answers]

    watch, answers = asyncio.run(follow())
    assert answers == [job_id, job_id]
    assert clients.threads == {"job-watch_0"}
    assert clients.asked == [("batch", 2)]
    other, _ = asyncio.run(follow())
    assert other is not watch, "a watch belongs to its event loop"
