"""Delivers messages, recording each attempt before and after it so that none is delivered twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from operator import methodcaller
from uuid import uuid4

from batchmark.changes.alerts.outbox import OUTSTANDING, Delivery, RunMessage
from batchmark.changes.alerts.store import AlertStore
from batchmark.core.errors import AlertError

# A younger try of another task may still be going on. Far above channels' own timeouts of a minute.
LONGEST_TRY = timedelta(minutes=10)
DIED = "the task that sent it ended before it received a response"

Send = Callable[[str, RunMessage], str]


class UnsureError(AlertError):
    """It is unknown whether a message was sent."""


def deliver(
    alerts: AlertStore,
    run_id: str,
    send: Send,
    *,
    channels: Collection[str],
    now: datetime,
    longest_try: timedelta,
) -> RunMessage:
    """Send a run's message to those of `channels` that still need it; return the updated message.

    `send` returns a channel's receipt. It raises UnsureError if the message might have been sent,
    and another AlertError if it certainly was not. An attempt that has no outcome and began at
    least `longest_try` ago is marked as unsure and not repeated.
    """
    message = alerts.change_message(run_id, partial(_with_the_dead, begun_until=now - longest_try))
    for delivery in message.of(*OUTSTANDING):
        if delivery.channel in channels:
            message = _try(alerts, run_id, delivery, send, now)
    return message


def _try(alerts: AlertStore, run_id: str, seen: Delivery, send: Send, now: datetime) -> RunMessage:
    update = {"state": "sending", "at": now, "attempts": seen.attempts + 1, "try_id": uuid4().hex}
    tried = seen.model_copy(update=update)
    # If S3's answer is lost, botocore writes again and is refused. The stored try tells whether the
    # write was ours.
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
    # Also replaces an 'unsure' that another task wrote meanwhile: this task knows the outcome.
    outcome = tried.model_copy(update=ended)
    return alerts.change_message(run_id, methodcaller("with_delivery", outcome))


def _with_the_dead(message: RunMessage, begun_until: datetime) -> RunMessage:
    """Mark as unsure any attempt that began by `begun_until` and has no outcome."""
    for one in message.of("sending"):
        if one.at and one.at <= begun_until:
            unsure = one.model_copy(update={"state": "unsure", "reason": DIED})
            message = message.with_delivery(unsure)
    return message
