"""A message's way out: written down before and after each try, so that none is made twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING
from uuid import uuid4

from batchmark.alerts.outbox import OUTSTANDING, Delivery, RunMessage
from batchmark.exceptions import AlertError

if TYPE_CHECKING:
    from batchmark.alerts.store import AlertStore

# A try of another task that is no older may still be going on.
LONGEST_TRY = timedelta(minutes=10)
DIED = "the task that sent it ended before there was an answer"

Send = Callable[[str, RunMessage], str]


class UnsureError(AlertError):
    """A message may have been sent, or not."""


def deliver(
    alerts: AlertStore,
    run_id: str,
    send: Send,
    *,
    channels: Collection[str],
    now: datetime,
    longest_try: timedelta,
) -> RunMessage:
    """Send what is outstanding of a run's message, each channel by itself; the message then.

    Args:
        send: sends a message through a channel and returns its receipt; raises UnsureError, or an
            AlertError where it surely was not sent.
        channels: that are in use; nothing is sent through others.
        longest_try: a try that began longer ago, without an answer, has died.
    """
    message = alerts.change_message(run_id, partial(_with_the_dead, begun_until=now - longest_try))
    for delivery in message.of(*OUTSTANDING):
        if delivery.channel in channels:
            message = _try(alerts, run_id, delivery, send, now)
    return message


def _try(alerts: AlertStore, run_id: str, seen: Delivery, send: Send, now: datetime) -> RunMessage:
    update = {
        "state": "sending",
        "at": now,
        "attempts": seen.attempts + 1,
        "try_id": uuid4().hex,
    }
    tried = seen.model_copy(update=update)
    # Where S3's answer was lost, botocore writes again and is refused: this try's own write is
    # there, though nothing says that it was made.
    message = alerts.change_message(
        run_id, lambda one: one.with_delivery(tried) if one.delivery(seen.channel) == seen else one
    )
    if message.delivery(seen.channel) != tried:
        return message
    try:
        ended = {"state": "sent", "receipt": send(seen.channel, message), "reason": None}
    except UnsureError as error:
        ended = {"state": "unsure", "reason": str(error)}
    except AlertError as error:
        ended = {"state": "failed", "reason": str(error)}
    # Also over an 'unsure' that another task wrote meanwhile: here it is known.
    outcome = tried.model_copy(update=ended)
    return alerts.change_message(run_id, methodcaller("with_delivery", outcome))


def _with_the_dead(message: RunMessage, begun_until: datetime) -> RunMessage:
    """The message with each try unsure that began until then and has no answer."""
    for one in message.of("sending"):
        if one.at and one.at <= begun_until:
            unsure = one.model_copy(update={"state": "unsure", "reason": DIED})
            message = message.with_delivery(unsure)
    return message
