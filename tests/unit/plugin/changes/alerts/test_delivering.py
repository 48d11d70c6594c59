"""A message goes out once on each channel, whatever dies or fails on the way."""

from datetime import timedelta

import pytest

from batchmark.changes.alerts.delivering import DIED, LONGEST_TRY, UnsureError, deliver
from batchmark.core.errors import AlertError
from tests.builders.alerts import NOW, message

CHANNELS = ("sns", "apprise:chat")


class Killed(BaseException):
    """The process is gone: nothing catches it."""


class Outside:
    """Channels that keep what they got, and fail as they are told to."""

    def __init__(self, **errors):
        self.got = []
        self.errors = {name.replace("_", ":"): error for name, error in errors.items()}

    def __call__(self, channel, told):
        if error := self.errors.get(channel):
            raise error
        self.got.append(channel)
        return f"receipt of {channel}"


def states(told):
    return {one.channel: one.state for one in told.deliveries}


@pytest.fixture
def sent(alerts):
    """Sends the message of run 30 through `outside`; the message then."""
    alerts.create(message(channels=CHANNELS))

    def send(outside, *, now=NOW, channels=CHANNELS, longest_try=timedelta(0)):
        return deliver(
            alerts, "run-30", outside, channels=channels, now=now, longest_try=longest_try
        )

    return send


def test_each_channel_gets_the_message_once(sent, alerts):
    outside = Outside()
    told = sent(outside)
    assert states(told) == dict.fromkeys(CHANNELS, "sent")
    assert [one.receipt for one in told.deliveries] == [f"receipt of {name}" for name in CHANNELS]
    assert sent(outside) == told == alerts.message("run-30")
    assert outside.got == list(CHANNELS)


def test_a_channel_that_fails_stops_no_other_and_is_tried_again(sent):
    told = sent(Outside(sns=AlertError("SNS did not take it: throttled")))
    assert states(told) == {"sns": "failed", "apprise:chat": "sent"}
    assert told.delivery("sns").reason == "SNS did not take it: throttled"
    outside = Outside()
    later = NOW + timedelta(minutes=1)
    told = sent(outside, now=later)
    assert outside.got == ["sns"]
    again = told.delivery("sns")
    assert (again.state, again.attempts, again.at, again.reason) == ("sent", 2, later, None)


def test_what_may_have_arrived_is_not_sent_again(sent):
    told = sent(Outside(apprise_chat=UnsureError("no answer")))
    assert states(told) == {"sns": "sent", "apprise:chat": "unsure"}
    outside = Outside()
    assert sent(outside, now=NOW + timedelta(days=1)) == told
    assert outside.got == []


def test_nothing_goes_through_a_channel_that_is_not_in_use_any_more(sent):
    outside = Outside()
    told = sent(outside, channels=("sns",))
    assert outside.got == ["sns"]
    assert states(told) == {"sns": "sent", "apprise:chat": "pending"}


def test_a_try_without_an_answer_is_unsure_once_it_must_be_over(sent, alerts):
    with pytest.raises(Killed):
        sent(Outside(sns=Killed()))
    outside = Outside()
    soon = NOW + LONGEST_TRY - timedelta(seconds=1)
    told = sent(outside, now=soon, longest_try=LONGEST_TRY)
    assert states(told) == {"sns": "sending", "apprise:chat": "sent"}
    told = sent(outside, now=NOW + LONGEST_TRY, longest_try=LONGEST_TRY)
    assert states(told) == {"sns": "unsure", "apprise:chat": "sent"}
    assert told.delivery("sns").reason == DIED
    assert outside.got == ["apprise:chat"]


def test_who_sends_knows_better_than_who_called_it_dead(sent, alerts):
    """Another task comes while this one waits for an answer, and this one gets it."""

    def slow(channel, told):
        if channel == "sns":
            assert states(sent(Outside()))["sns"] == "unsure"
        return "late"

    one = sent(slow).delivery("sns")
    assert (one.state, one.receipt, one.reason) == ("sent", "late", None)
    assert (one.at, one.attempts, one.shown) == (NOW, 1, False)


def test_two_tasks_at_once_send_it_once(sent, alerts, store, monkeypatch):
    """The other one writes 'sending' between this one's look and its write."""
    outside, others = Outside(), Outside()
    replace, first = store.swap, []

    def after_another(*arguments):
        if not first:
            first.append(True)
            sent(others, longest_try=LONGEST_TRY)
        return replace(*arguments)

    monkeypatch.setattr(store, "swap", after_another)
    told = sent(outside, longest_try=LONGEST_TRY)
    assert others.got == list(CHANNELS)
    assert outside.got == []
    assert states(told) == dict.fromkeys(CHANNELS, "sent")


def test_a_write_whose_answer_was_lost_is_known_again_and_sent(sent, store, monkeypatch):
    """botocore writes it once more, and is told that the object is another one now."""
    outside = Outside()
    replace = store.swap

    def written_twice(*arguments):
        replace(*arguments)
        return replace(*arguments)

    monkeypatch.setattr(store, "swap", written_twice)
    assert states(sent(outside)) == dict.fromkeys(CHANNELS, "sent")
    assert outside.got == list(CHANNELS)
