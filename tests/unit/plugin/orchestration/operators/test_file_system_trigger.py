"""The triggers that stand a run's file system up and collapse it: how their tasks end."""

import asyncio
from types import SimpleNamespace

import pytest
from airflow._shared.module_loading import import_string

from batchmark.aws.result_bucket import PLAN, RunStore
from batchmark.core.clusters.multi_node import COLLAPSE_SECONDS, NODES_SECONDS, STAND_UP_SECONDS
from batchmark.core.run import RunPlan
from batchmark.orchestration.operators.file_system_trigger import CollapseTrigger, StandUpTrigger
from batchmark.runs.budget import worst_case
from batchmark.runs.spending import FILE_SYSTEM, run_spending
from tests.builders.installations import configured
from tests.builders.runs import PRICES
from tests.builders.scaling import RUN, RUN_ID, planned, stack
from tests.builders.spending import build_spending
from tests.stand_ins.batch import client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.file_systems import CREATED, FakeFsx, FakeSsm
from tests.stand_ins.killed_triggers import kill_during
from tests.waiting import PATIENCE_SECONDS

NODES = stack()
SETTINGS = NODES.file_system
CLEARED = RUN.model_dump() | {"generation": 1}
KEY = "costs/2026-11/scaling-1.json"
OUTAGE = client_error("InternalServerError", 500)


def stays(looks=1000):
    """Failures of what can't be deleted for so long."""
    return {"delete_file_system": [client_error("BadRequest")] * looks}


class Nodes:
    """Batch, with nodes that it keeps for so many looks."""

    def __init__(self, looks=0):
        self.looks = looks
        self.failures = []

    def describe_compute_environments(self, **request):
        if self.failures:
            raise self.failures.pop(0)
        assert request == {"computeEnvironments": [NODES.compute_environment]}
        self.looks -= 1
        vcpus = 96 if self.looks >= 0 else 0
        return {"computeEnvironments": [{"computeResources": {"desiredvCpus": vcpus}}]}


class Running:
    """A trigger in an account, with a clock of its own."""

    def __init__(self, trigger=StandUpTrigger, seconds=STAND_UP_SECONDS, **fields):
        self.fsx, self.ssm = FakeFsx(**fields), FakeSsm(SETTINGS.id_parameter)
        self.s3 = MemoryBucket("results", "us-east-1")
        self.nodes = Nodes()
        self.now = 1000.0
        self.xcoms, self.slept = {}, 0
        self.trigger = self.made(trigger, seconds)

    def made(self, trigger, seconds=COLLAPSE_SECONDS, **changes):
        arguments = {
            "region_name": "us-east-1",
            "bucket": "results",
            "environment": NODES.compute_environment,
            "settings": SETTINGS.model_dump(mode="json"),
            "run": RUN.model_dump(),
            "deadline": self.now + seconds,
        }
        made = trigger(**arguments | changes)
        clients = {"fsx": self.fsx, "ssm": self.ssm, "s3": self.s3, "batch": self.nodes}
        made.clients = clients.__getitem__
        made.clock = lambda: self.now
        made.sleep, made.push_xcoms = self.sleep, self.push_xcoms
        return made

    async def sleep(self, seconds):
        self.slept += 1
        self.now += seconds
        assert self.slept < 2000, "it never ends"

    async def push_xcoms(self, xcoms):
        self.xcoms |= xcoms

    def state(self, trigger=None):
        async def events():
            return [event async for event in (trigger or self.trigger).run()]

        (event,) = asyncio.run(events())
        return event.task_instance_state

    def collapses(self, **changes):
        """Nothing is left of it then."""
        assert self.state(self.made(CollapseTrigger, **changes)) == "success"
        assert self.fsx.there == {}

    @property
    def named(self):
        return self.ssm.values[SETTINGS.id_parameter]


def standing():
    """A run's file system that is up."""
    running = Running()
    assert running.state() == "success"
    assert running.named.startswith("fs-")
    return running


@pytest.mark.parametrize("trigger", [StandUpTrigger, CollapseTrigger])
def test_another_triggerer_makes_the_same_trigger(trigger):
    path, arguments = Running(trigger).trigger.serialize()
    again = import_string(path)(**arguments)
    assert again.serialize() == (path, arguments)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"becomes": "FAILED"}, "is FAILED: the subnet has no free address"),
        ({"failures": {"describe_data_repository_associations": [ValueError("x")]}}, "ValueError"),
        ({"becomes": "CREATING"}, "is CREATING, after 3600 s"),
        # Nodes of before that stay fail the run before others are paid.
        (None, f"Batch has not ended the nodes yet (96 vCPUs), after {NODES_SECONDS} s"),
    ],
)
def test_what_fails_half_way_leaves_nothing_and_says_why(fields, why):
    running = Running()
    running.nodes.looks = 0 if fields else 10_000
    vars(running.fsx).update(fields or {})
    assert running.state() == "failed"
    assert running.fsx.there == {}
    assert running.named == "none"
    failure = running.xcoms["failure"]
    assert failure.startswith("The file system could not be set up: ")
    assert why in failure
    assert failure.endswith("Everything created for it was deleted.")


def test_what_can_not_be_removed_is_named_also_where_a_user_ends_the_task(capsys):
    running = Running()
    running.fsx.becomes = "FAILED"
    running.fsx.failures = stays()
    assert running.state() == "failed"
    failure = running.xcoms["failure"]
    assert "Not everything created for it was deleted: File system fs-" in failure
    assert "The leak guard will delete it after the run, or you can delete it in the FSx" in failure
    running = Running()
    running.fsx.failures = stays()
    running.trigger.file_system.stand_up()
    asyncio.run(running.trigger.on_kill())
    said = capsys.readouterr().out
    assert "The file system was not deleted: File system fs-" in said
    assert "in the FSx console" in said
    running = Running()
    kill_during(running.trigger, running.fsx, "create_file_system", lambda: running.fsx.deleted)
    assert len(running.fsx.requests) == 1


@pytest.mark.parametrize(
    "operation", ["create_file_system", "describe_file_systems", "delete_file_system"]
)
def test_an_outage_is_waited_for(operation):
    running = Running()
    running.fsx.failures = {operation: [OUTAGE] * 3}
    assert running.state() == "success"
    running.collapses()


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_task_that_a_user_ends_leaves_nothing_to_come_up(after):
    running = Running()

    async def killed():
        waiting = asyncio.Event()
        sleep = running.trigger.sleep

        async def sleeping(seconds):
            await sleep(seconds)
            if running.slept > after:
                waiting.set()
                await asyncio.Event().wait()

        running.trigger.sleep = sleeping
        task = asyncio.create_task(anext(running.trigger.run()))
        await asyncio.wait_for(waiting.wait(), PATIENCE_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        running.trigger.sleep = sleep
        await running.trigger.on_kill()

    asyncio.run(killed())
    assert [one["Lifecycle"] for one in running.fsx.there.values()] in ([], ["DELETING"])
    assert running.fsx.deleted
    assert running.named == "none"


def booked(running, aws):
    running.s3.meta = SimpleNamespace(
        region_name="us-east-1",
        endpoint_url="https://s3.amazonaws.com" if aws else "http://127.0.0.1:5000",
    )
    store = RunStore(running.s3, "results", RUN_ID)
    jobs = planned(NODES)
    worst = worst_case(NODES.joined_to(configured()), jobs, PRICES, CREATED, SETTINGS)
    plan = RunPlan(jobs=jobs, worst_case=worst, spending_key=KEY, file_system=SETTINGS)
    store.write(PLAN, plan.model_dump_json())
    record = build_spending(RUN_ID).settled((), worst)
    assert record.job_usd == {FILE_SYSTEM: worst.file_system.usd}
    store.put(KEY, record.model_dump_json())
    return store


@pytest.mark.parametrize("aws", [True, False])
def test_the_cost_takes_the_place_of_the_most_that_it_could_be(aws, monkeypatch):
    running = standing()
    store = booked(running, aws)
    moment = SimpleNamespace(now=lambda _: CREATED.replace(hour=CREATED.hour + 2))
    monkeypatch.setattr("batchmark.orchestration.operators.file_system_trigger.datetime", moment)
    running.collapses()
    usd = 1200 * 0.14 * 2 / (30 * 24) if aws else 0  # November has 30 days
    costs = {FILE_SYSTEM: 0, "fs-00000000000000001": pytest.approx(usd)}
    assert run_spending(store, KEY).job_usd == costs


def test_nodes_go_before_what_they_have_mounted_if_in_time_and_before_another_is_named():
    running = standing()
    running.nodes.looks = 3
    began = running.now
    describe = running.nodes.describe_compute_environments

    def watched(**request):
        assert running.named == "none"
        assert [one["Lifecycle"] for one in running.fsx.there.values()] == ["AVAILABLE"]
        return describe(**request)

    running.nodes.describe_compute_environments = watched
    running.collapses()
    assert running.now - began >= 30
    running = standing()
    running.nodes.looks = 10_000
    running.fsx.failures = stays(150)  # for 1,500 s
    began = running.now
    running.collapses()
    assert 1200 + 1500 <= running.now - began < COLLAPSE_SECONDS
    running = Running()
    running.nodes.looks = 3
    named_at = []
    put = running.ssm.put_parameter
    running.ssm.put_parameter = lambda **asked: (named_at.append(running.nodes.looks), put(**asked))
    assert running.state() == "success"
    assert named_at == [-1], "once Batch has ended them all"
    assert running.xcoms == {"return_value": running.named}


def test_it_goes_although_nodes_parameter_or_settings_can_not_be_seen():
    running = standing()
    running.nodes.failures = [client_error("AccessDeniedException")]
    running.ssm.values.clear()
    running.ssm.get_parameter = failing(client_error("ParameterNotFound"))
    running.collapses()
    running = standing()
    running.nodes.looks = 10_000
    running.collapses(settings=None, environment=None)


def test_a_cleared_task_leaves_the_next_ones_file_system_alone_and_that_of_before():
    running = standing()
    next_one = running.made(StandUpTrigger, run=CLEARED)
    assert running.state(next_one) == "success"
    asyncio.run(running.made(StandUpTrigger).on_kill())  # of another triggerer
    states = {key: one["Lifecycle"] for key, one in running.fsx.there.items()}
    first, second = (one.file_system.file_system_id for one in (running.trigger, next_one))
    assert states == {first: "DELETING", second: "AVAILABLE"}
    assert running.named == second
    running = standing()
    before = running.named
    next_one = running.made(StandUpTrigger, run=CLEARED)
    running.fsx.becomes = "FAILED"
    assert running.state(next_one) == "failed"
    assert list(running.fsx.there) == [before] == [running.named]


def test_what_was_made_of_one_that_does_not_come_up_is_booked_if_it_can_be():
    running = Running()
    store = booked(running, aws=True)
    running.fsx.becomes = "FAILED"
    assert running.state() == "failed"
    spent = run_spending(store, KEY).job_usd
    assert spent.keys() == {FILE_SYSTEM, "fs-00000000000000001"}
    assert spent[FILE_SYSTEM] == 0
    worst = store.plan().worst_case
    later = run_spending(store, KEY).settled((), worst)
    assert later.job_usd == spent, "its end is known when the run is collected"
    running = standing()
    store = booked(running, aws=True)
    store.put(store.prefix + PLAN, "no plan")
    running.collapses()
    assert FILE_SYSTEM in run_spending(store, KEY).job_usd


def test_a_collapse_that_fails_once_fails_its_try_and_each_try_books_what_is_gone_by_then():
    running = standing()
    store = booked(running, aws=True)
    worst = run_spending(store, KEY).job_usd[FILE_SYSTEM]
    assert running.state(running.made(StandUpTrigger, run=CLEARED)) == "success"
    first, second = running.fsx.there
    delete = running.fsx.delete_file_system

    def keep_second(**asked):
        if asked["FileSystemId"] == second:
            raise client_error("BadRequest")
        return delete(**asked)

    running.fsx.delete_file_system = keep_second
    assert running.state(running.made(CollapseTrigger)) == "failed"
    assert running.xcoms["failure"].startswith("The file system was not deleted: File system fs-")
    spent = run_spending(store, KEY).job_usd
    assert (spent.keys(), spent[FILE_SYSTEM]) == ({FILE_SYSTEM, first}, worst)
    running.fsx.delete_file_system = delete
    for _ in range(2):  # in the end there is nothing to collapse
        running.collapses()
    spent = run_spending(store, KEY).job_usd
    assert (spent.keys(), spent[FILE_SYSTEM]) == ({FILE_SYSTEM, first, second}, 0)
