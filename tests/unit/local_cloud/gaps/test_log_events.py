"""Events of log streams in a database that stays."""

import pytest

from local_cloud.gaps.log_events import Events, delete_all_but, keep_in


@pytest.fixture
def path(tmp_path, logs_on_disk):
    found = tmp_path / "logs.sqlite"
    keep_in(found)
    return found


def told(events):
    return [event.message for event in events]


def test_events_are_there_after_a_restart(path):
    events = Events()
    events.add(1000, 1001, ["one", "two"])
    keep_in(path)
    again = Events(events.number)
    assert told(again) == ["one", "two"]
    again.add(1000, 1002, ["three"])
    assert told(again) == ["one", "two", "three"]
    assert len({event.event_id for event in again}) == len(again) == 3


def test_streams_that_are_gone_leave_nothing(path):
    kept, gone = Events(), Events()
    for each in (kept, gone):
        each.add(1000, 1001, ["one"])
    delete_all_but([kept])
    assert (told(kept), told(gone), bool(gone)) == (["one"], [], False)
