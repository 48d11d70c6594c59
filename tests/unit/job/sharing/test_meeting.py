"""Replicas in containers of their own, here threads: one leads, the others lend their workers."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from batchmark_job.errors import CannotMeasureError, InputError
from batchmark_job.measuring.processes.workers import StepError
from batchmark_job.sharing import meeting
from batchmark_job.sharing.meeting import Place, ReplicaRendezvous, lend_workers
from tests.stand_ins.workers import WorkersHere
from tests.waiting import PATIENCE_SECONDS


class Held:
    def __init__(self, name):
        self.name = name

    def where(self, *, again=1):
        return self.name * again

    def fail(self):
        raise MemoryError("no more")


def hold(tell, name):
    return Held(name)


@pytest.fixture
def replicas(tmp_path):
    """A meeting of so many, and the others in threads; they end with it."""
    lent, meetings = [], []
    with ThreadPoolExecutor() as threads:

        def meet(count):
            first, *others = (Place(number, tmp_path / "group") for number in range(count))
            meetings.append(ReplicaRendezvous(first, count, WorkersHere()))
            lent.extend(threads.submit(lend_workers, each, WorkersHere()) for each in others)
            return meetings[0]

        yield meet
        meetings[0].close()
        for each in lent:
            each.result(PATIENCE_SECONDS)
    assert [path.name for path in (tmp_path / "group").iterdir()] == ["over"]


def test_workers_of_all_containers_answer_in_every_group(replicas):
    workers = replicas(3)
    for group in "ab":
        live = [workers.start(hold, f"{group}{number}") for number in range(3)]
        for worker in live:
            worker.get_ready()
            worker.begin("where", again=2)
        assert [worker.answer(5) for worker in live] == [f"{group}{n}" * 2 for n in range(3)]
        with pytest.raises(StepError, match="no more") as raised:
            live[2].ask("fail")
        assert raised.value.out_of_memory, "an error elsewhere arrives as it was"
        assert live[2].ask("where") == f"{group}2"
        for worker in live:
            worker.end()


@pytest.fixture
def place(tmp_path):
    return Place(0, tmp_path / "group")


@pytest.fixture
def led(place):
    """Meetings of so many, without the others; they end with the test."""
    with ExitStack() as meetings:
        yield lambda count: meetings.enter_context(
            closing(ReplicaRendezvous(place, count, WorkersHere()))
        )


@pytest.fixture
def one_that_came(led, place):
    """The other's worker in a meeting of two, and what it sends through."""
    workers = led(2)
    with meeting._connect(place) as connection:
        connection.send((1, time.perf_counter()))
        workers.start(hold, "a")
        yield workers.start(hold, "b"), connection


def test_a_container_that_ends_is_noticed_at_once(one_that_came):
    there, connection = one_that_came
    connection.close()
    began = time.monotonic()
    with pytest.raises(StepError, match="its container stopped") as raised:
        there.get_ready()
    assert raised.value.lost
    assert not raised.value.hung
    assert time.monotonic() - began < 2


def test_one_that_is_silent_is_given_up(one_that_came, monkeypatch):
    monkeypatch.setattr(meeting, "GRACE_SECONDS", 0.1)
    there, connection = one_that_came
    with pytest.raises(StepError, match="is not responding") as raised:
        there.answer(0.1)
    assert raised.value.hung
    asked = [connection.recv()[0] for _ in range(2)]
    connection.send((asked[-1], "late"))
    connection.send((asked[-1] + 1, "in time"))
    assert there.answer(5) == "in time"  # to its own question


def test_the_others_fail_if_the_first_one_dies(led, place):
    workers = led(2)
    with ThreadPoolExecutor() as others:
        follower = others.submit(lend_workers, Place(1, place.folder), WorkersHere())
        workers.start(hold, "a")
        for connection in workers._came.values():
            connection.close()
        with pytest.raises(CannotMeasureError, match="ended unexpectedly"):
            follower.result(PATIENCE_SECONDS)


def test_who_does_not_come_is_named_and_without_a_first_one_the_others_end(led, place, monkeypatch):
    monkeypatch.setattr(meeting, "MEETING_SECONDS", 0.3)
    with pytest.raises(CannotMeasureError, match="the first replica did not start"):
        lend_workers(Place(1, place.folder), WorkersHere())
    workers = led(3)
    with meeting._connect(place) as connection:
        connection.send((2, time.perf_counter()))
        with pytest.raises(CannotMeasureError, match=r"only 2 of 3 replicas joined.*missing: 2$"):
            workers.start(hold, "a")


@pytest.mark.parametrize("parent", ["short", "long" * 40])
def test_the_next_attempt_meets_where_the_last_one_left_its_files(tmp_path, parent):
    place = Place(0, tmp_path / parent / "group")
    place.folder.mkdir(parents=True)
    for name in (meeting.SOCKET, meeting.OVER):
        (place.folder / name).touch()
    workers = ReplicaRendezvous(place, 2, WorkersHere())
    meeting._connect(place).close()
    workers.close()
    with pytest.raises(CannotMeasureError, match="ended before this one joined"):  # too late
        lend_workers(Place(1, place.folder), WorkersHere())


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"BATCHMARK_SHARING_FOLDER .*can't be used"):
        ReplicaRendezvous(Place(0, tmp_path / "file" / "group"), 2, WorkersHere())


def place_of(replicas, **environment):
    return Place.of(replicas, {"BATCHMARK_SHARING_FOLDER": "/sharing"} | environment)


def test_children_of_an_array_job_meet_in_one_folder():
    children = [
        place_of(3, AWS_BATCH_JOB_ID=f"abc:{n}", AWS_BATCH_JOB_ARRAY_INDEX=str(n)) for n in range(3)
    ]
    assert [child.number for child in children] == [0, 1, 2]
    assert len({child.folder for child in children}) == 1
    first = {"AWS_BATCH_JOB_ID": "abc:0", "AWS_BATCH_JOB_ARRAY_INDEX": "0"}
    again = place_of(3, **first, AWS_BATCH_JOB_ATTEMPT="2")
    assert again.folder == children[0].folder  # it alone may have been tried again
    other = place_of(3, **first | {"AWS_BATCH_JOB_ID": "def:0"})
    assert other.folder != children[0].folder
    assert place_of(1, AWS_BATCH_JOB_ID="abc").number == 0, "without an index it is the first"


def test_pods_of_a_job_meet_by_its_name(monkeypatch):
    def pod(name, number):
        monkeypatch.setattr("socket.gethostname", lambda: f"{name}-{number}")
        return place_of(9, JOB_COMPLETION_INDEX=str(number))

    first, third, other = pod("sharing-5", 0), pod("sharing-5", 3), pod("sharing-20", 0)
    assert first.folder == third.folder != other.folder
    assert third.number == 3


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "2", "AWS_BATCH_JOB_ID": "a:2"}, "this is replica 3, but"),
        ({}, "BATCHMARK_SHARING_FOLDER is not set: set it to a folder"),
    ],
)
def test_a_place_that_cannot_be_is_refused(environment, message):
    with pytest.raises(InputError, match=message):
        Place.of(2, environment)
