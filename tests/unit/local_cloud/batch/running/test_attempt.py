"""An attempt and its containers, with a runtime of the test."""

import itertools
import socket
import threading
from datetime import UTC, datetime
from ipaddress import ip_address
from types import SimpleNamespace

import pytest

from local_cloud.batch.jobs.container import merge
from local_cloud.batch.jobs.resources import Allocation, Requirements
from local_cloud.batch.running import loopback
from local_cloud.batch.running.attempt import Attempt
from local_cloud.batch.running.log_stream import LossyLogStream
from local_cloud.batch.running.runtime import Exit, StartError
from tests.waiting import PATIENCE_SECONDS, wait_for

GRACE_SECONDS = 0.05


class SlowRuntime:
    """Starts containers once it may; they end only by SIGKILL."""

    shares_network = True

    def __init__(self):
        self.let = threading.Event()
        self.asked = threading.Event()
        self.ended = threading.Event()
        self.error = None
        self.left = {}  # containers of an earlier server, by node
        self.launches = []

    def start(self, launch):
        assert self.let.wait(PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        self.launches.append(launch)
        return self.container(started_at=1)

    def container(self, *, started_at, wait=None):
        return SimpleNamespace(
            started_at=started_at,
            address=None,
            ask_to_stop=self.asked.set,
            kill=self.ended.set,
            wait=wait or self.wait,
        )

    def left_over(self, started_at):
        """A container that an earlier server started and that has ended with code 3."""
        return self.container(started_at=started_at, wait=lambda: Exit(3))

    def adopt(self, launch):
        if self.error is not None:
            raise self.error
        return self.left.get(launch.node)

    def wait(self):
        assert self.ended.wait(PATIENCE_SECONDS)
        return Exit(137)


@pytest.fixture
def runtime():
    return SlowRuntime()


def new_attempt(runtime, *, nodes=1, main_node=0, record=None, job_id="id"):
    container = merge({"image": "repository:tag", "command": ["true"]}, {}, {})
    submission = SimpleNamespace(
        name="name",
        main_node=main_node if nodes > 1 else None,
        is_multi_node=nodes > 1,
        containers=[container] * nodes,
        definition=SimpleNamespace(name="definition"),
    )
    job = SimpleNamespace(
        id=job_id,
        arn="arn:aws:batch:us-east-1:123456789012:job/id",
        submission=submission,
        attempts=[],
    )
    environment = SimpleNamespace(
        name="environment",
        ecs_arn="arn:aws:ecs:us-east-1:123456789012:cluster/environment",
        compute_resources={},
    )
    settings = SimpleNamespace(stop_grace_seconds=GRACE_SECONDS)
    allocation = Allocation(Requirements(1, 4), ())
    return Attempt(job, allocation, settings, runtime, environment, record)


@pytest.fixture
def attempt(runtime):
    return new_attempt(runtime)


def test_a_container_stopped_before_its_start_is_killed_after_the_grace(attempt, runtime):
    starter = threading.Thread(target=attempt.start)
    starter.start()
    # Returns at once, though the image may still be on its way.
    attempt.stop("no longer needed")
    assert not runtime.ended.wait(4 * GRACE_SECONDS)
    runtime.let.set()
    starter.join(PATIENCE_SECONDS)
    assert runtime.asked.is_set()
    assert runtime.ended.wait(PATIENCE_SECONDS)
    end = attempt.wait()
    assert (end.exit_code, end.status_reason) == (137, "no longer needed")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            StartError("CannotPullContainerError", "manifest unknown"),
            "CannotPullContainerError: manifest unknown",
        ),
        (OSError("no such program"), "CannotStartContainerError: no such program"),
    ],
)
def test_an_error_at_the_start_is_the_containers_reason(attempt, runtime, error, reason):
    runtime.error = error
    runtime.let.set()
    assert not attempt.start()
    end = attempt.wait()
    assert (end.exit_code, end.reason, end.status_reason) == (None, reason, "Task failed to start")


def test_a_missing_image_fails_the_pull(attempt, begin):
    begin("missing_image", image="repository:tag")
    assert not attempt.start()
    assert attempt.wait().reason.startswith("CannotPullContainerError: ")
    assert "repository:tag not found" in attempt.wait().reason


def test_containers_of_an_earlier_server_are_adopted_and_else_started(runtime):
    runtime.left = {0: runtime.left_over(7), 1: runtime.left_over(8)}
    attempt = new_attempt(runtime, nodes=2)
    assert attempt.resume()
    assert attempt.record.started_at == 7
    end = attempt.wait()
    assert (end.exit_code, end.status_reason) == (3, "Essential container in task exited")
    assert [node.exit_code for node in attempt.record.nodes] == [3, 3]
    runtime.left = {}
    runtime.let.set()
    another = new_attempt(runtime)
    assert another.resume()
    assert another.record.started_at == 1


@pytest.mark.parametrize(
    ("left", "error"), [((), None), ((0,), None), ((0, 1), TimeoutError("no answer of the engine"))]
)
def test_an_attempt_whose_containers_are_gone_or_not_told_has_lost_its_host(runtime, left, error):
    runtime.left = {node: runtime.left_over(7) for node in left}
    runtime.error = error
    record = new_attempt(runtime, nodes=2).record
    record.started_at = 7
    attempt = new_attempt(runtime, nodes=2, record=record)
    assert not attempt.resume()
    end = attempt.wait()
    assert end.exit_code is None
    assert end.status_reason.startswith("Host EC2 (instance i-")


def test_a_reclaim_is_announced_once_and_takes_the_host_later(attempt, runtime):
    runtime.let.set()
    assert attempt.start()
    assert attempt.reclaimed_at is None
    assert attempt.announce_reclaim(60.0)
    assert not attempt.announce_reclaim(60.0)
    assert 0 < (attempt.reclaimed_at - datetime.now(UTC)).total_seconds() <= 60
    assert not runtime.asked.is_set()
    attempt.lose_host(GRACE_SECONDS)
    assert runtime.asked.is_set()
    assert attempt.wait().status_reason.startswith("Host EC2 (instance i-")


def test_an_attempt_that_is_stopped_gets_no_notice(attempt, runtime):
    runtime.let.set()
    assert attempt.start()
    attempt.stop("no longer needed")
    assert not attempt.announce_reclaim(60.0)
    attempt.lose_host(GRACE_SECONDS)
    assert attempt.wait().status_reason == "no longer needed"


def started(attempt, runtime, count):
    """Start an attempt; the nodes in their order, once so many have started."""
    runtime.let.set()
    assert attempt.start()
    wait_for(lambda: len(runtime.launches) == count, f"{count} nodes", every=0.002)
    return [launch.node for launch in runtime.launches]


def test_the_main_node_starts_first_and_the_others_in_an_order_of_their_job(runtime, monkeypatch):
    monkeypatch.setattr("local_cloud.batch.running.attempt.CHILDREN_SECONDS", 0.05)
    orders = []
    for job_id in ("one", "one", "other"):
        runtime.launches.clear()
        orders.append(
            started(new_attempt(runtime, nodes=6, main_node=2, job_id=job_id), runtime, 6)
        )
    assert [order[0] for order in orders] == [2, 2, 2]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][1:] != sorted(orders[0][1:])


def test_each_node_has_an_address_and_the_children_know_the_main_nodes(runtime):
    attempt = new_attempt(runtime, nodes=3)
    started(attempt, runtime, 3)
    addresses = [node.address for node in attempt.record.nodes]
    assert len({*addresses, "127.0.0.1"}) == 4
    told = {launch.node: launch.main_node_address for launch in runtime.launches}
    assert told == {0: None, 1: addresses[0], 2: addresses[0]}
    assert new_attempt(runtime).record.nodes[0].address is None


@pytest.mark.parametrize(
    ("code", "reason"), [(None, "CannotPullContainerError: manifest unknown"), (9, None)]
)
def test_a_child_that_cannot_start_or_fails_does_not_end_the_job(runtime, code, reason):
    attempt = new_attempt(runtime, nodes=2)
    start = runtime.start

    def start_main_only(launch):
        if launch.node == 0:
            return start(launch)
        if code is None:
            raise StartError("CannotPullContainerError", "manifest unknown")
        return runtime.container(started_at=1, wait=lambda: Exit(code))

    runtime.start = start_main_only
    runtime.let.set()
    assert attempt.start()
    main, child = attempt.record.nodes
    wait_for(lambda: child.reason or 1 in attempt._containers, "start of the child", every=0.002)
    runtime.ended.set()
    assert attempt.wait().exit_code == 137
    assert (main.exit_code, child.exit_code, child.reason) == (137, code, reason)


def test_no_child_starts_once_the_main_node_has_ended(runtime, monkeypatch):
    monkeypatch.setattr("local_cloud.batch.running.attempt.CHILDREN_SECONDS", 3600.0)
    runtime.ended.set()
    attempt = new_attempt(runtime, nodes=3)
    assert started(attempt, runtime, 1) == [0]
    assert attempt.wait().exit_code == 137
    assert len(runtime.launches) == 1


def test_a_fault_keeps_one_child_from_starting(runtime, begin):
    faults = [
        begin("unstarted_node", job_name=job_name, node=node)
        for job_name, node in (("na*", 1), ("other", 2), ("*", 0))
    ]
    attempt = new_attempt(runtime, nodes=3)
    assert started(attempt, runtime, 2) == [0, 2]
    wait_for(lambda: [fault.strikes for fault in faults] == [1, 0, 0], "strike", every=0.002)


def test_faults_of_its_job_drop_lines_of_its_log_and_describe_its_stop_before_its_start(
    runtime, begin
):
    lost, early = {"first": 3, "last": 2}, {"early_seconds": 2.5}
    faults = [
        begin(kind, job_name=job_name, **fields)
        for kind, fields in (("lost_log_lines", lost), ("stop_before_start", early))
        for job_name in ("other", "na*")
    ]
    attempt = new_attempt(runtime)
    started(attempt, runtime, 1)
    runtime.ended.set()
    attempt.wait()
    assert [fault.strikes for fault in faults] == [0, 1, 0, 1]
    (launch,) = runtime.launches
    assert isinstance(launch.log_stream, LossyLogStream)
    assert (launch.log_stream.first, launch.log_stream.last) == (3, 2)
    assert attempt.record.stopped_at - attempt.record.started_at == -2500


def test_one_node_is_killed_alone(runtime):
    attempt = new_attempt(runtime, nodes=2)
    started(attempt, runtime, 2)
    killed = []
    for node, container in attempt._containers.items():
        container.kill = lambda node=node: killed.append(node)
    assert attempt.kill_node(1)
    assert killed == [1]
    assert not attempt.kill_node(2)


@pytest.mark.skipif("sys.platform != 'linux'")
def test_each_address_is_new_and_can_be_listened_at():
    found = [loopback.new_address() for _ in range(1000)]
    assert len({*found, loopback.MACHINES_OWN}) == 1001
    with socket.create_server((found[0], 0)) as first:
        port = first.getsockname()[1]
        with socket.create_server((found[1], port)) as second:
            assert second.getsockname() == (found[1], port)


@pytest.mark.parametrize("number", [0, loopback.FOURTH - 1, loopback.ALL - 1, loopback.ALL])
def test_no_address_is_a_networks_own(monkeypatch, number):
    monkeypatch.setattr(loopback, "_numbers", itertools.count(number))
    monkeypatch.setattr("sys.platform", "linux")
    address = ip_address(loopback.new_address())
    assert address.is_loopback
    assert address.packed[3] not in (0, 255)
    assert address.packed[1] not in (0, 255)


def test_elsewhere_than_on_linux_nodes_share_one(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert loopback.new_address() == "127.0.0.1"
