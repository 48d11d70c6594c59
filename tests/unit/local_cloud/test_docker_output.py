"""The engine's frames as lines."""

from local_cloud.batch.docker_container import lines
from local_cloud.batch.logs import MAX_EVENT_BYTES

FIRST = b"2026-11-22T11:18:53.137168881Z "
SECOND = b"2026-11-22T11:18:54.000000000Z "
FIRST_MS, SECOND_MS = 1795346333137, 1795346334000


def test_each_frame_is_a_line_of_its_time():
    assert list(lines([FIRST + b"a b\n", SECOND + b"\n"])) == [
        (FIRST_MS, b"a b\n"),
        (SECOND_MS, b"\n"),
    ]


def test_the_parts_of_a_long_line_are_one_line_of_the_first_parts_time():
    assert list(lines([FIRST + b"a" * 16_384, SECOND + b"b\n"])) == [
        (FIRST_MS, b"a" * 16_384 + b"b\n")
    ]


def test_what_is_longer_than_an_event_is_cut():
    part = b"x" * 100_000
    cut = [line for _, line in lines([FIRST + part] * 6 + [FIRST + b"\n"])]
    assert [len(line) for line in cut] == [MAX_EVENT_BYTES, MAX_EVENT_BYTES, 75_765]


def test_a_last_line_may_have_no_end():
    assert list(lines([FIRST + b"end"])) == [(FIRST_MS, b"end")]
    assert list(lines([])) == []
