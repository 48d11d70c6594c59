"""An alert's states; one change has one alert ever, and an improvement closes what it undoes."""

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
from batchmark.changes.records import Cause
from batchmark.core.errors import AlertError
from tests.builders.alerts import (
    NOW,
    change,
    in_state,
    merged,
    moved,
    opened,
    point,
    series,
    some_series,
)
from tests.builders.changed_series import run_id


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


CURE = Cause(name="driver version", before="590.44.01", after="580.95.05")


def states(found):
    """What came of a merge, in short."""
    return len(found.opened), len(found.recoveries), len(found.improvements)


def test_a_change_for_the_worse_opens_an_alert():
    found = merged([change()])
    (alert,) = found.opened
    assert (alert.state, alert.change) == ("open", change())
    assert (alert.transitions[0].run_id, alert.transitions[0].at) == ("run-30", NOW)
    assert states(found) == (1, 0, 0)


@pytest.mark.parametrize("state", STATES)
def test_a_known_change_opens_none_again_in_whatever_state_its_alert_is(state):
    (alert,) = opened()
    if state != "open":
        alert = in_state(alert, state)
    assert states(merged([change()], [alert])) == (0, 0, 0)


@pytest.mark.parametrize(("first", "is_known"), [(18, True), (22, True), (17, False), (23, False)])
def test_the_same_change_may_begin_at_a_run_nearby(first, is_known):
    found = merged([change(point(first, near=0))], opened(change(point(20, near=2))))
    assert len(found.opened) == (0 if is_known else 1)
    found = merged([change(point(first, near=2))], opened(change(point(20, near=0))))
    assert len(found.opened) == (0 if is_known else 1)


@pytest.mark.parametrize(
    "other",
    [
        point(23),  # whose two near runs are near those of the other
        point(40),
        point(of=series(target="g6.xlarge")),
        point(of=series(dtype="float16")),
        point(of=series(gpu_model="NVIDIA L4")),
        point(metric="noise", after=0.05),
    ],
)
def test_another_series_metric_or_time_is_another_change(other):
    assert len(merged([change(other)], opened()).opened) == 1


def test_series_that_join_a_change_join_its_alert_and_count_for_its_recovery():
    of = some_series(9)
    (alert,) = opened(moved(20, 0.010, 0.012, of[:5]))
    larger = moved(21, 0.010, 0.013, of).model_copy(update={"usd_per_month": 20.0})
    found = merged([larger], [alert])
    (joined,) = found.joined
    assert states(found) == (0, 0, 0)
    assert [one.series for one in joined.points] == of[5:]
    extended = alert.join(joined)
    assert (extended.id, extended.transitions) == (alert.id, alert.transitions)
    assert (alert.figures_run_id, extended.figures_run_id) == (None, run_id(30))
    assert extended.series == tuple(of)
    # All figures are of the same look; since when it is so is as it was told.
    assert {point.after.median for point in extended.change.points} == {0.013}
    assert extended.change.first_run_id == alert.change.first_run_id
    assert extended.change.usd_per_month == 20.0
    assert extended.join(joined) == extended
    assert merged([larger], [extended]).joined == ()
    # Five of nine are not most of them, though the alert began with five.
    found = merged([larger, moved(26, 0.012, 0.010, of[:5])], [alert])
    assert [one.closes for one in found.recoveries] == [False]


@pytest.mark.parametrize("order", [1, -1])
def test_of_what_begins_at_once_the_worse_comes_first(order):
    """Four series join the alert before five come back, so these are not most of it."""
    of = some_series(9)
    (alert,) = opened(moved(20, 0.010, 0.012, of[:5]))
    worse, better = moved(22, 0.010, 0.012, of), moved(22, 0.012, 0.010, of[:5])
    found = merged([worse, better][::order], [alert])
    assert len(found.joined) == 1
    assert [one.closes for one in found.recoveries] == [False]


def test_series_join_the_alert_of_their_change_unless_it_is_closed_or_they_are_mute():
    of = some_series(3)
    other, mine = opened(change(point(20, of=series(dtype="int8"))), moved(20, 0.01, 0.012, of[:1]))
    later = moved(21, 0.010, 0.012, of)
    (joined,) = merged([later], [other, mine]).joined
    assert joined.alert_id == mine.id
    for state in ("invalid", "recovered"):
        found = merged([later], [other, in_state(mine, state)])
        assert (states(found), found.joined) == ((0, 0, 0), ())
    mute = [{"match": {"parameters": "*1001*"}, "mute": True}]
    of = some_series(3)
    alerts = opened(moved(20, 0.010, 0.012, of[:1]))
    (joined,) = merged([moved(20, 0.010, 0.012, of)], alerts, series=mute).joined
    assert [one.series for one in joined.points] == of[2:]


def test_a_look_that_misses_a_target_leaves_the_cost():
    of = some_series(3)
    (alert,) = opened(change(point(of=of[0]), point(of=series(target="g6.xlarge"))))
    later = change(*(point(of=one) for one in of), usd_per_month=1.0)
    (joined,) = merged([later], [alert]).joined
    assert alert.join(joined).change.usd_per_month == 12.4


def test_two_steps_that_one_run_sees_are_two_alerts_and_one_improvement_may_undo_both():
    found = merged([change(point(20)), change(point(22, 0.012, 0.014))])
    assert len(found.opened) == 2
    alerts = opened(change(point(10, 0.010, 0.012)), change(point(20, 0.012, 0.014)))
    assert len(merged([change(point(26, 0.014, 0.010))], alerts).recoveries) == 2
    # Back to between the two, it undoes the later step alone.
    (recovery,) = merged([change(point(26, 0.014, 0.012))], alerts).recoveries
    assert recovery.alert_id == alerts[1].id


def test_an_improvement_that_brings_the_level_back_closes_the_alert_unless_it_is_closed():
    for state in ((), ("acknowledged",), ("fixed",)):
        (alert,) = opened()
        better = change(point(26, 0.012, 0.0101), causes=(CURE,))
        found = merged([better], [in_state(alert, *state)])
        (recovery,) = found.recoveries
        (improvement,) = found.improvements
        assert (recovery.alert_id, recovery.run_id, recovery.closes) == (alert.id, "run-30", True)
        assert improvement.brought_back == (alert.id,)
        recovered = alert.recover(recovery)
        assert (recovered.state, recovered.cures) == ("recovered", (CURE,))
    for closed in ("invalid", "recovered"):
        found = merged([better], [in_state(alert, closed)])
        assert states(found) == (0, 0, 1)
        assert found.improvements[0].brought_back == ()


def test_half_way_back_is_back_and_better_than_before_too():
    """It was 10 ms, then 12 ms: half of the change is 11 ms. A speedup comes back upwards."""
    for after, is_back in ((0.011, True), (0.01101, False), (0.007, True)):
        found = merged([change(point(26, 0.012, after))], opened())
        assert (len(found.recoveries), len(found.improvements)) == (int(is_back), 1)
    of = series(against="c5.2xlarge")
    alerts = opened(change(point(20, 12.0, 10.0, of=of, metric="speedup")))
    for level, is_back in ((11.0, True), (10.9, False)):
        found = merged([change(point(26, 10.0, level, of=of, metric="speedup"))], alerts)
        assert len(found.recoveries) == int(is_back)


def test_an_improvement_before_the_change_or_of_something_else_closes_nothing():
    for other in (
        point(12, 0.012, 0.010),
        point(26, 0.012, 0.010, of=series(dtype="float16")),
        point(26, 0.05, 0.01, metric="noise"),
    ):
        assert merged([change(other)], opened()).recoveries == ()


def test_most_series_have_to_come_back_in_one_improvement_or_in_two():
    of = some_series(10)
    alerts = opened(moved(20, 0.010, 0.012, of))
    for count, closes in ((7, False), (8, True), (10, True)):
        found = merged([moved(26, 0.012, 0.010, of[:count])], alerts)
        (recovery,) = found.recoveries
        assert (len(recovery.points), recovery.closes) == (count, closes)
    halves = moved(26, 0.012, 0.010, of[:5]), moved(27, 0.012, 0.010, of[5:])
    found = merged(halves, alerts)
    assert [one.closes for one in found.recoveries] == [False, True]


def test_partial_recoveries_of_several_runs_add_up():
    of = some_series(10)
    (alert,) = opened(moved(20, 0.010, 0.012, of))
    first = merged([moved(26, 0.012, 0.010, of[:5])], [alert])
    alert = alert.recover(first.recoveries[0])
    assert (alert.state, len(alert.back)) == ("open", 5)
    # The next run says the first half once more, and finds three others.
    again = moved(26, 0.012, 0.010, of[:5])
    second = merged([again, moved(28, 0.012, 0.010, of[5:8])], [alert], list(first.improvements))
    (recovery,) = second.recoveries
    assert (len(recovery.points), recovery.closes) == (3, True)
    assert alert.recover(recovery).state == "recovered"


def test_a_series_that_joins_an_improvement_that_was_told_still_comes_back():
    of = some_series(4)
    (alert,) = opened(moved(20, 0.010, 0.012, of))
    first = merged([moved(26, 0.012, 0.010, of[:3])], [alert])
    alert = alert.recover(first.recoveries[0])
    assert alert.state == "open"
    second = merged([moved(27, 0.012, 0.010, of)], [alert], list(first.improvements))
    (recovery,) = second.recoveries
    assert ([one.series for one in recovery.points], recovery.closes) == (of[3:], True)
    # Nor is that series good news of its own for the runs after it.
    told = [*first.improvements, *second.improvements]
    later = merged([moved(27, 0.012, 0.010, of[3:])], [alert.recover(recovery)], told)
    assert states(later) == (0, 0, 0)


def test_an_improvement_is_told_once_though_later_runs_see_it_too():
    better = change(point(26, 0.012, 0.009))
    first = merged([better])
    assert states(first) == (0, 0, 1)
    nearby = change(point(27, 0.012, 0.009))
    assert states(merged([nearby], [], list(first.improvements))) == (0, 0, 0)


def test_what_came_and_went_within_one_look_is_opened_and_recovered():
    found = merged([change(point(26, 0.012, 0.010)), change(point(20))])
    assert states(found) == (1, 1, 1)
    assert found.opened[0].recover(found.recoveries[0]).state == "recovered"


def test_improvements_that_bring_nothing_back_can_be_left_untold_and_mute_series_recover():
    better = change(point(26, 0.012, 0.0101))
    for left_out in (
        {"improvements": False},
        {"series": [{"match": {"workload": "matmul"}, "mute": True}]},
    ):
        assert states(merged([better], **left_out)) == (0, 0, 0)
        assert states(merged([better], opened(), **left_out)) == (0, 1, 1)
