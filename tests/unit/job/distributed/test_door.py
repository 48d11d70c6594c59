"""Strangers at the main node's port: no bytes of theirs do or learn anything."""

import socket
import threading
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark_job.distributed import door as module
from batchmark_job.distributed.door import AuthenticatingListener
from tests.builders.hostile import fuzzed
from tests.builders.noise import quick_and_long
from tests.stand_ins.nodes import MAIN
from tests.stand_ins.stranger import heard, sayings
from tests.waiting import wait_for

PROOF = bytes(range(100, 132))


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
        wait_for(lambda: inside.said, "the node", 10)
    assert inside.said == [b"a node's word"]


def test_the_silent_cost_no_thread_and_keep_nobody_out(inside):
    threads = set(threading.enumerate())  # of which one of an earlier test may end meanwhile
    with ExitStack() as visits:
        for _ in range(300):
            visits.enter_context(socket.create_connection((MAIN, inside.port)))
        node = visits.enter_context(socket.create_connection((MAIN, inside.port)))
        node.sendall(PROOF + b"a node's word")
        wait_for(lambda: inside.said, "the node", 10)
        assert set(threading.enumerate()) <= threads
    assert inside.door.dropped >= 300 - module.MOST_VISITORS


def test_who_says_nothing_is_dropped_after_a_while(inside, monkeypatch):
    monkeypatch.setattr(module, "PROOF_SECONDS", 0.0)
    with socket.create_connection((MAIN, inside.port), timeout=10) as silent:
        assert silent.recv(1) == b""


def test_an_empty_proof_lets_nobody_in(port):
    open_to_none = Inside(port, proof=b"")
    assert heard(MAIN, port, b"") == heard(MAIN, port, bytes(32)) == b""
    open_to_none.door.close()
    assert open_to_none.said == []
