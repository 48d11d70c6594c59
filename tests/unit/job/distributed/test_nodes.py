"""Nodes of one job on loopback addresses, here threads, with ranks that do as they are told."""

import contextlib
import itertools
import signal
import socket
import struct
import subprocess
import threading
import time

import psutil
import pytest

from batchmark_job.distributed import lines, local_ranks, nodes
from batchmark_job.distributed.follow import Follower, decline
from batchmark_job.distributed.lines import NodeConnection
from batchmark_job.distributed.node import Node
from batchmark_job.errors import CannotMeasureError
from batchmark_job.measuring.processes.workers import StepError
from tests.stand_ins.nodes import CPU, GREETING, MAIN, PROOF, one_that_came
from tests.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.usefixtures("without_torch")


@pytest.fixture
def alone(main):
    """The only node of a job, for one device or two."""
    only = main(1)
    only.gather(CPU, devices=2)
    return only


def ranks_that_run():
    """The processes that stand for torchrun, of all nodes here."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if local_ranks.TORCHRUN in process.cmdline():
                found.append(process)
    return found


def process_of_rank_0(folder):
    """Once it wrote its id."""
    file = folder / "pid-0"
    return psutil.Process(int(wait_for(lambda: file.exists() and file.read_text(), "rank 0")))


def once_there(path, act):
    """Acts beside the test, once there is this file."""

    def wait():
        wait_for(path.exists, path.name)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_all_nodes_run_their_ranks_and_the_first_one_answers(main, followers, task):
    all_nodes = main(3)
    for index in (2, 1):  # in any order
        followers.start(index, 3)
    all_nodes.gather(CPU, devices=2)
    for _ in range(2):
        ran = all_nodes.run(task, 2, PATIENCE_SECONDS)
        assert ran.samples_seconds == (0.1, 0.2, 0.1, 0.1)
        assert ran.busy_share is None
    records = all_nodes.records(devices=2)
    assert [each.host for each in records] == ["127.77.0.1", "127.77.0.2", "127.77.0.3"]
    assert [each.devices for each in records] == [2, 2, 2]
    assert records[0].joined_seconds == 0 < records[1].joined_seconds
    all_nodes.close()
    followers.join()
    assert followers.errors == {}


def test_one_node_alone_needs_no_other_and_its_ranks_meet_on_loopback(
    alone, task, capsys, monkeypatch
):
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    assert alone.run(task, 1, PATIENCE_SECONDS).bytes_moved == 1000
    said = capsys.readouterr().out
    assert "ranks from 0 by 127.0.0.1:" in said
    assert "NCCL at lo\n" in said
    (record,) = alone.records(devices=1)
    assert (record.index, record.device_model, record.instance_type) == (0, "a CPU", "c5.large")
    assert record.host == MAIN


@pytest.mark.parametrize(
    ("does", "blamed"),
    [
        (("", "fail"), r"1 \(127.77.0.2\): rank 1: its shard has no end"),
        (("", "die"), r"1 \(127.77.0.2\): rank 1: ended by signal 9"),
        (("fail", "hang"), r"0 \(127.77.0.1\): rank 0: its shard has no end"),
        (("complain", "late"), r"1 \(127.77.0.2\): rank 1: its shard has no end"),
    ],
    ids=["fails", "dies", "fails beside one that hangs", "says so last"],
)
def test_the_rank_to_blame_is_named_and_the_next_launch_goes_on(both, task, tmp_path, does, blamed):
    for rank, what in enumerate(does):
        (tmp_path / f"rank-{rank}").write_text(what)
    with pytest.raises(StepError, match=f"^node {blamed}$"):
        both.run(task, 1, PATIENCE_SECONDS)
    # By their name: on a busy machine one may be ended before it wrote its id.
    wait_for(lambda: not ranks_that_run(), "end of all ranks")
    for file in tmp_path.glob("rank-*"):
        file.unlink()
    assert both.run(task, 1, PATIENCE_SECONDS).bytes_moved == 1000


def test_ranks_that_hang_are_ended(both, task, tmp_path):
    (tmp_path / "rank-1").write_text("hang")
    began = time.monotonic()
    with pytest.raises(StepError, match="the ranks did not end within 3 s") as caught:
        both.run(task, 1, 3.0)
    assert caught.value.hung
    assert time.monotonic() - began < 60
    wait_for(lambda: not ranks_that_run(), "end of its ranks")


def test_a_rank_that_was_killed_is_not_hidden_by_its_neighbours_complaint(
    alone, task, tmp_path, monkeypatch
):
    (tmp_path / "rank-0").write_text("complain")
    (tmp_path / "rank-1").write_text("die")
    with pytest.raises(StepError, match=r"^node 0 \(127.77.0.1\): rank 1: ended by signal 9$"):
        alone.run(task, 2, PATIENCE_SECONDS)
    kills = iter([0, 1])
    monkeypatch.setattr(local_ranks, "kills_for_memory", lambda: next(kills))
    with pytest.raises(StepError, match="rank 1: out of memory: the kernel killed it") as caught:
        alone.run(task, 2, PATIENCE_SECONDS)
    assert caught.value.out_of_memory


def test_nodes_that_do_not_come_are_named_and_the_others_let_go(main, followers):
    all_nodes = main(4, seconds=1.0)
    followers.start(2, 4)
    named = r"only 2 nodes of 4 .* missing: node 1, 3\."
    with pytest.raises(CannotMeasureError, match=named), all_nodes:
        all_nodes.gather(CPU, devices=1)
    followers.join()
    assert followers.errors[2].startswith(f"the main node ({MAIN}) gave up: CannotMeasureError: ")


def test_a_node_that_came_and_went_is_not_waited_for(main, port):
    all_nodes = main(3)
    threading.Timer(0.5, one_that_came(port).close).start()
    began = time.monotonic()
    lost = r"node 1 \(127.77.0.2\) joined, then was lost: it clo"
    with pytest.raises(CannotMeasureError, match=lost):
        all_nodes.gather(CPU, devices=1)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("came_first", "told"),
    [
        (False, "node 1 can't take part: cannot measure: no GPU"),
        (True, "then was lost: it closed the connection"),
    ],
)
def test_a_node_that_can_not_measure_says_why_unless_it_came_and_went(main, port, came_first, told):
    all_nodes = main(2)
    if came_first:
        one_that_came(port).close()
        wait_for(lambda: all_nodes._joined and all_nodes._joined[1].lost, "its loss")
    decline(Node(1, 2, MAIN, proof=PROOF), "cannot measure: no GPU", port)
    wait_for(lambda: all_nodes._declined, "its word")  # before anybody waits for nodes
    began = time.monotonic()
    with pytest.raises(CannotMeasureError, match=told):
        all_nodes.gather(CPU, devices=1)
    assert time.monotonic() - began < 60


def test_a_node_that_is_told_to_stop_says_so(both, followers, task, tmp_path):
    (tmp_path / "rank-0").write_text("hang")
    (tmp_path / "rank-1").write_text("hang")
    codes = []
    stop = once_there(
        tmp_path / "pid-1", lambda: codes.append(followers.made[1].stop(signal.SIGTERM))
    )
    with pytest.raises(StepError, match=r"node 1 \(127.77.0.2\) was lost: it received SIGTERM"):
        both.run(task, 1, PATIENCE_SECONDS)
    stop.join()
    assert codes == [143]
    followers.join()


def test_once_it_is_closed_no_row_fails_of_that(both, followers, task, tmp_path):
    """An interruption is writing them as interrupted meanwhile."""
    (tmp_path / "rank-0").write_text("hang")
    (tmp_path / "rank-1").write_text("hang")
    ended = []

    def measure():
        with contextlib.suppress(StepError):
            both.run(task, 1, PATIENCE_SECONDS)
        ended.append("row")

    threading.Thread(target=measure, daemon=True).start()
    rank = process_of_rank_0(tmp_path)
    both.close("it received SIGTERM")
    assert not rank.is_running()
    time.sleep(0.5)
    assert ended == []
    followers.join()
    assert followers.errors == {1: f"the main node ({MAIN}) gave up: it received SIGTERM"}


def test_ranks_that_start_while_the_job_is_closed_end_too(alone, task, tmp_path, monkeypatch):
    (tmp_path / "rank-0").write_text("hang")
    closed = threading.Event()

    def start(*arguments):
        ranks = local_ranks.LocalRanks(*arguments)
        alone.close("it received SIGTERM")
        closed.set()
        return ranks

    monkeypatch.setattr(nodes, "LocalRanks", start)
    threading.Thread(target=alone.run, args=(task, 1, PATIENCE_SECONDS), daemon=True).start()
    assert closed.wait(PATIENCE_SECONDS)
    wait_for(lambda: not ranks_that_run(), "end of all ranks")


def test_a_rank_that_starts_while_the_others_are_ended_ends_too(alone, task, tmp_path, monkeypatch):
    (tmp_path / "rank-0").write_text("hang")
    threading.Thread(target=alone.run, args=(task, 1, PATIENCE_SECONDS), daemon=True).start()
    rank = process_of_rank_0(tmp_path)
    late = subprocess.Popen(rank.cmdline(), env=rank.environ())
    all_processes, looks = psutil.process_iter, itertools.count()

    def without_the_late_one_at_first():
        first = next(looks) == 0
        return [each for each in all_processes() if not (first and each.pid == late.pid)]

    monkeypatch.setattr(psutil, "process_iter", without_the_late_one_at_first)
    alone.close()
    survived = psutil.pid_exists(late.pid)
    late.kill()
    late.wait()
    assert not survived


def test_a_node_that_is_lost_ends_it_for_all_rows(main, port, task, tmp_path):
    all_nodes = main(2)
    other = one_that_came(port)
    all_nodes.gather(CPU, devices=1)
    (tmp_path / "rank-0").write_text("hang")
    once_there(tmp_path / "pid-0", other.close)
    lost = r"^node 1 \(127.77.0.2\) was lost: it closed the connection$"
    with pytest.raises(StepError, match=lost) as caught:
        all_nodes.run(task, 1, PATIENCE_SECONDS)
    assert caught.value.lost
    wait_for(lambda: not psutil.pid_exists(int((tmp_path / "pid-0").read_text())), "its end")
    with pytest.raises(StepError, match=lost):
        all_nodes.run(task, 1, PATIENCE_SECONDS)


def test_a_node_that_falls_silent_is_lost(main, port, task, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "SILENCE_SECONDS", 1.0)
    all_nodes = main(2)
    with socket.create_connection((MAIN, port)) as silent:
        silent.sendall(PROOF + GREETING.model_dump_json().encode() + b"\n")
        all_nodes.gather(CPU, devices=1)
        (tmp_path / "rank-0").write_text("hang")
        with pytest.raises(StepError, match="was lost: it sent nothing for 1 s"):
            all_nodes.run(task, 1, PATIENCE_SECONDS)


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
def test_a_follower_ends_when_the_main_node_dies(port, followers, reset):
    with socket.create_server((MAIN, port)) as server:
        followers.start(1, 2)
        connection, _ = server.accept()
        if reset:
            connection.makefile("rb").readline()  # before its greeting, it would connect again
            at_once = struct.pack("ii", True, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            connection.close()
        else:
            NodeConnection(connection).close()
    followers.join()
    assert followers.errors == {
        1: f"the main node ({MAIN}) closed the connection; ending its ranks on this node"
    }


def test_a_main_node_that_never_comes_is_not_waited_for_for_ever(port):
    node = Node(1, 2, MAIN, 0.3, PROOF)
    with pytest.raises(CannotMeasureError, match=f"did not respond at {MAIN}:{port} within 0 s"):
        Follower(node, GREETING, None, port).follow()


def test_nodes_must_be_alike(main, followers):
    all_nodes = main(2)
    followers.start(1, 2, device="cuda", gpus=1)
    unlike = "measures on cuda, but the main node measures on cpu"
    with pytest.raises(CannotMeasureError, match=unlike):
        all_nodes.gather(CPU, devices=1)
