"""Shared boto3 clients, and the watch that a triggerer's jobs share."""

import asyncio
import gc
import threading

import pytest

from batchmark.orchestration.aws_clients import PATIENT_ATTEMPTS, AwsAccess, AwsClients
from batchmark.orchestration.operators.job_watch import shared_watch
from tests.stand_ins.batch import FakeBatch, FakeClients

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
