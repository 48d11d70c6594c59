"""A run's message: what the run decided, the text that announces it, and each channel's delivery.

The message is stored once, before any of its decisions are carried out. If a task dies partway
through, the next attempt finds the message and completes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.changes.alerts.records import Alert, Improvement, Recovery
from batchmark.core.record import Record

DeliveryState = Literal["pending", "sending", "sent", "failed", "unsure"]
# Which the next try sends.
OUTSTANDING: tuple[DeliveryState, ...] = ("pending", "failed")


class Delivery(Record):
    channel: str = Field(description="'sns', or 'apprise:' followed by the connection's ID")
    state: DeliveryState = Field(
        default="pending",
        description="unsure: the attempt ended without a response, so the message may have "
        "arrived; it is not sent again",
    )
    at: AwareDatetime | None = Field(default=None, description="time of the last attempt")
    attempts: int = Field(default=0, ge=0)
    try_id: str | None = Field(
        default=None,
        description="random ID by which a task recognises its own last attempt",
    )
    receipt: str | None = Field(
        default=None,
        description="ID that the channel assigned to the message; null until it is sent",
    )
    reason: str | None = Field(
        default=None,
        description="why the delivery failed or why it is unknown whether the message arrived",
    )
    shown: bool = Field(
        default=False,
        description="whether a task has already failed in order to report this unsure delivery",
    )


class RunMessage(Record):
    """The message that announces a run's news. A run without news has no message."""

    run_id: str
    created_at: AwareDatetime
    subject: str
    text: str
    attributes: dict[str, tuple[str, ...]] = Field(
        description="message attributes that subscribers can filter by"
    )
    opened: tuple[Alert, ...]
    recoveries: tuple[Recovery, ...]
    improvements: tuple[Improvement, ...]
    mentions: tuple[str, ...] = Field(
        default=(), description="runs that this message reports as possibly unannounced"
    )
    hold_until: object = Field(
        default=None,
        exclude=True,
        description="left over from quiet hours in earlier releases; has no effect",
    )
    deliveries: tuple[Delivery, ...]

    @property
    def alert_ids(self) -> list[str]:
        """The IDs of all alerts in the message: those opened and those with recoveries."""
        ids = (*(one.id for one in self.opened), *(one.alert_id for one in self.recoveries))
        return list(dict.fromkeys(ids))

    @property
    def new_alerts(self) -> tuple[Alert, ...]:
        """The opened alerts that did not recover in the same run."""
        closed = {one.alert_id for one in self.recoveries if one.closes}
        return tuple(alert for alert in self.opened if alert.id not in closed)

    def delivery(self, channel: str) -> Delivery:
        return next(one for one in self.deliveries if one.channel == channel)

    def of(self, *states: DeliveryState) -> tuple[Delivery, ...]:
        return tuple(one for one in self.deliveries if one.state in states)

    def with_delivery(self, delivery: Delivery) -> RunMessage:
        """Return the message with this delivery in place of the channel's previous one."""
        deliveries = tuple(
            delivery if one.channel == delivery.channel else one for one in self.deliveries
        )
        return self.model_copy(update={"deliveries": deliveries})

    def with_unsure_shown(self) -> RunMessage:
        message = self
        for one in self.of("unsure"):
            message = message.with_delivery(one.model_copy(update={"shown": True}))
        return message


def unsure_runs(messages: Sequence[RunMessage]) -> tuple[str, ...]:
    """Return the runs whose messages might not have arrived, unless a later message says so."""
    mentioned = {run_id for message in messages for run_id in message.mentions}
    return tuple(
        message.run_id
        for message in messages
        if message.of("unsure") and message.run_id not in mentioned
    )
