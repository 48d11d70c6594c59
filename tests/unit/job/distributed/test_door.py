"""Strangers at the main node's port, and what none of its nodes would say."""

import contextlib
import re
import socket
import threading
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark_job.distributed import door as module
from batchmark_job.distributed import nodes
from batchmark_job.distributed.door import AuthenticatingListener
from batchmark_job.distributed.node import Node
from batchmark_job.distributed.nodes import Nodes
from batchmark_job.errors import CannotMeasureError
from tests.builders.hostile import fuzzed
from tests.builders.noise import quick_and_long
from tests.stand_ins.nodes import CPU, GREETING, MAIN, PROOF, one_that_came
from tests.stand_ins.stranger import DEEP, heard, sayings
from tests.waiting import PATIENCE_SECONDS, wait_for


def changed(place, change, rest):
    """The proof with one byte changed, and what follows it."""
    other = bytearray(PROOF)
    other[place] ^= change
    return bytes(other) + rest


CUT_SHORT = st.integers(0, 31).map(lambda length: PROOF[:length])
CHANGED = st.builds(changed, st.integers(0, 31), st.integers(1, 255), st.binary(max_size=40))
SAID = st.one_of(st.binary(max_size=100), st.sampled_from(sayings("job-1")), CUT_SHORT, CHANGED)


class Inside:
    """The door, and what those say who were let in."""

    def __init__(self, port, proof=PROOF):
        self.port, self.said = port, []
        self.door = AuthenticatingListener(MAIN, port, proof, self._let_in)

    def _let_in(self, connection):
        with connection:
            self.said.append(connection.recv(100))


@pytest.fixture
def inside(port):
    made = Inside(port)
    yield made
    made.door.close()


@quick_and_long("examples", [40], [2_000])
def test_no_bytes_in_any_number_of_connections_get_in_or_hear_anything(inside, examples):
    @given(st.lists(SAID, max_size=5))
    @fuzzed(examples)
    def attack(texts):
        for text in texts:
            assert heard(MAIN, inside.port, text) == b""

    attack()
    assert inside.said == []
    with socket.create_connection((MAIN, inside.port)) as node:
        for part in (PROOF[:10], PROOF[10:] + b"a node's word"):  # what follows is left to it
            node.sendall(part)
        wait_for(lambda: inside.said, "the node")
    assert inside.said == [b"a node's word"]


def test_the_silent_cost_no_thread_keep_nobody_out_and_are_dropped_after_a_while(
    inside, monkeypatch
):
    threads = set(threading.enumerate())  # of which one of an earlier test may end meanwhile
    with ExitStack() as visits:
        for _ in range(300):
            visits.enter_context(socket.create_connection((MAIN, inside.port)))
        node = visits.enter_context(socket.create_connection((MAIN, inside.port)))
        node.sendall(PROOF + b"a node's word")
        wait_for(lambda: inside.said, "the node")
        assert set(threading.enumerate()) <= threads
    assert inside.door.dropped >= 300 - module.MOST_VISITORS
    monkeypatch.setattr(module, "PROOF_SECONDS", 0.0)
    with socket.create_connection((MAIN, inside.port), timeout=PATIENCE_SECONDS) as silent:
        assert silent.recv(1) == b""


def test_an_empty_proof_lets_nobody_in(port):
    open_to_none = Inside(port, proof=b"")
    assert heard(MAIN, port, b"") == heard(MAIN, port, bytes(32)) == b""
    open_to_none.door.close()
    assert open_to_none.said == []


pytestmark = pytest.mark.usefixtures("without_torch")

ANOTHER = b"thirty-two bytes of another job."


def test_a_node_of_another_job_is_turned_away(main, followers):
    all_nodes = main(2, seconds=1.0)
    followers.start(1, 2, proof=ANOTHER)
    missing = "missing: node 1.*; 1 client lacked this job's token$"
    with pytest.raises(CannotMeasureError, match=missing):
        all_nodes.gather(CPU, devices=1)
    followers.join()
    assert followers.errors[1].endswith("; ending its ranks on this node")


def test_a_second_connection_of_a_node_is_refused(main, port, followers):
    all_nodes = main(3)
    first = one_that_came(port)
    wait_for(lambda: all_nodes._joined, "the first")
    second = one_that_came(port)
    assert second.receive() == {"kind": "over", "reason": "node 1 has already joined"}
    first.close()
    second.close()


def test_who_repeats_a_proof_costs_few_threads_and_keeps_no_node_out(main, port):
    all_nodes = main(2)
    before, most = threading.active_count(), 2 * nodes.MOST_COMING
    with contextlib.ExitStack() as visits:
        for _ in range(20):
            inside, other = map(visits.enter_context, socket.socketpair())
            all_nodes._let_in(inside)
        wait_for(lambda: threading.active_count() - before <= 2 * most, "the end of the others")
        other.settimeout(PATIENCE_SECONDS)
        assert other.recv(1) == b"{", "the newest is heard"
        node = one_that_came(port)
        wait_for(lambda: all_nodes._joined, "the node")
        node.close()


def test_a_main_node_without_an_address_of_its_own_does_not_listen_at_all_of_them(port):
    with pytest.raises(CannotMeasureError, match="outside Batch, set AWS_BATCH_JOB_MAIN_NODE_"):
        Nodes(Node(0, 2, None, 20.0, PROOF), port=port)


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        (DEEP, ".*recursion"),
        (b'{"kind": "ended", "launch": 1e999, "ended": [0]}\n', "sent "),
        (b'{"kind": "ended", "launch": 1, "ended": ["0", null, "no", "late"]}\n', "sent "),
        (b'{"kind": "ended", "launch": 1, "ended": 3}\n', "sent "),
        (b'{"kind": "ended", "launch": [], "ended": [0]}\n', "sent "),
        (b'{"kind": "leaving"}\n', "sent "),
        (b'"leaving"\n', "sent "),
    ],
)
def test_a_node_that_sends_what_is_no_message_is_lost(main, port, said, lost):
    all_nodes = main(2)
    with socket.create_connection((MAIN, port)) as other:
        other.sendall(PROOF + GREETING.model_dump_json().encode() + b"\n" + said)
        wait_for(lambda: all_nodes._joined and all_nodes._joined[1].lost, "its loss")
    assert re.match(lost, all_nodes._joined[1].lost)


def test_whatever_else_reaches_the_port_harms_nobody(main, port, followers, task):
    all_nodes = main(2)
    for said in sayings("job-1"):
        assert heard(MAIN, port, said) == b""
    assert all_nodes._joined == all_nodes._declined == {}
    followers.start(1, 2)
    all_nodes.gather(CPU, devices=1)
    with pytest.raises(ConnectionRefusedError):  # when all are there nobody else is heard
        socket.create_connection((MAIN, port))
    assert all_nodes.run(task, 1, PATIENCE_SECONDS).bytes_moved == 1000
