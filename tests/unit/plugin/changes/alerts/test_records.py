"""An alert's states, and what it is named after."""

from datetime import timedelta

import pytest

from batchmark.changes.alerts.records import (
    BY_HAND,
    MAY_FOLLOW,
    STATES,
    Recovery,
    change_id,
    precision,
)
from batchmark.core.errors import AlertError
from tests.builders.alerts import NOW, change, in_state, opened, point, some_series


@pytest.mark.parametrize(("state", "following"), MAY_FOLLOW.items())
def test_every_state_takes_what_the_table_allows_and_refuses_the_rest(state, following):
    (alert,) = opened()
    if state != "open":
        alert = in_state(alert, state)
    assert alert.state == state
    for other in STATES:
        if other in following:
            assert alert.become(other, at=NOW, by="bob", run_id="later").state == other
        else:
            with pytest.raises(AlertError, match=f"is {state} and can't become {other}; it can"):
                alert.become(other, at=NOW, by="bob", run_id="later")


def test_a_transition_keeps_who_when_and_why_and_the_same_run_makes_it_once():
    (alert,) = opened()
    once = alert.become("invalid", at=NOW, by="ada", run_id="manual-1", note="a neighbour")
    again = once.become("invalid", at=NOW + timedelta(hours=1), by="ada", run_id="manual-1")
    assert again == once
    last = once.transitions[-1]
    assert (last.at, last.by, last.note, last.run_id) == (NOW, "ada", "a neighbour", "manual-1")
    assert once.transitions[0].by == "the run"


def test_the_id_is_that_of_the_change_whatever_else_is_known_of_it():
    points = [point(of=one) for one in some_series(3)]
    same = change(*reversed(points), usd_per_month=None, usd_reason="no price")
    assert change_id(change(*points)) == change_id(same)
    assert change_id(change(*points)) != change_id(change(*points[:2]))
    assert change_id(change(point(20))) != change_id(change(point(21)))
    assert change_id(change(point(metric="noise"))) != change_id(change(point()))
    assert change_id(change()).isalnum()


def test_what_a_person_closed_stays_closed_when_it_recovers_which_nobody_can_say_by_hand():
    (alert,) = opened()
    found = Recovery(alert_id=alert.id, run_id="run-30", at=NOW, points=(point(25),), closes=True)
    invalid = in_state(alert, "invalid")
    assert invalid.recover(found).state == "invalid"
    assert invalid.recover(found).back == (point().series,)
    assert alert.recover(found).recover(found).transitions == alert.recover(found).transitions
    assert "recovered" not in BY_HAND
    assert MAY_FOLLOW["recovered"] == ("invalid",)


def test_precision_counts_what_people_said():
    (alert,) = opened()
    ways = [(), (), ("acknowledged",), ("fixed",), ("recovered",), ("recovered", "invalid")]
    found = precision([in_state(alert, *way) for way in (*ways, ("acknowledged", "recovered"))])
    assert (found.hits, found.cases) == (4, 5)
    assert found.low < found.share < found.high
    assert precision([alert]) is precision([]) is None
