"""A run's message: what it decides and tells, and how far it came on each of its channels.

It is created once, before anything that it decides is done. So whatever dies on the way, the next
try finds it and does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.alerts.records import Alert, Improvement, Recovery
from batchmark.record import Record

DeliveryState = Literal["pending", "sending", "sent", "failed", "unsure"]
# Sent with the next try.
OUTSTANDING: tuple[DeliveryState, ...] = ("pending", "failed")


class Delivery(Record):
    """A message on its way through one channel."""

    channel: str = Field(description="'sns', or 'apprise:' and the connection's id")
    state: DeliveryState = Field(
        default="pending",
        description="unsure: it may have arrived, for the try ended without an answer; it is not "
        "sent again",
    )
    at: AwareDatetime | None = Field(default=None, description="of the last try")
    attempts: int = Field(default=0, ge=0)
    try_id: str | None = Field(
        default=None, description="random, of the last try: who began it knows it again"
    )
    receipt: str | None = Field(default=None, description="the message's id there, once sent")
    reason: str | None = Field(default=None, description="why it is failed or unsure")
    shown: bool = Field(default=False, description="unsure, and a task failed to show it")


class RunMessage(Record):
    """What one run tells; there is none of a run with nothing new."""

    run_id: str
    created_at: AwareDatetime
    subject: str
    text: str
    attributes: dict[str, tuple[str, ...]] = Field(description="for the filters of subscribers")
    opened: tuple[Alert, ...]
    recoveries: tuple[Recovery, ...]
    improvements: tuple[Improvement, ...]
    mentions: tuple[str, ...] = Field(
        default=(), description="runs whose messages it says may not have arrived"
    )
    hold_until: AwareDatetime | None = Field(
        default=None, description="end of the quiet hours that the last look found"
    )
    deliveries: tuple[Delivery, ...]

    @property
    def alert_ids(self) -> list[str]:
        """Of all that it tells of: new ones and those that came back."""
        ids = (*(one.id for one in self.opened), *(one.alert_id for one in self.recoveries))
        return list(dict.fromkeys(ids))

    @property
    def new_alerts(self) -> tuple[Alert, ...]:
        """Those that the same run did not see recover."""
        closed = {one.alert_id for one in self.recoveries if one.closes}
        return tuple(alert for alert in self.opened if alert.id not in closed)

    def delivery(self, channel: str) -> Delivery:
        return next(one for one in self.deliveries if one.channel == channel)

    def of(self, *states: DeliveryState) -> tuple[Delivery, ...]:
        return tuple(one for one in self.deliveries if one.state in states)

    def with_delivery(self, delivery: Delivery) -> RunMessage:
        """This message with that in the place of the same channel's."""
        deliveries = tuple(
            delivery if one.channel == delivery.channel else one for one in self.deliveries
        )
        return self.model_copy(update={"deliveries": deliveries})

    def with_unsure_shown(self) -> RunMessage:
        message = self
        for one in self.of("unsure"):
            message = message.with_delivery(one.model_copy(update={"shown": True}))
        return message

    def held(self, until: AwareDatetime) -> RunMessage:
        return self.model_copy(update={"hold_until": until})


def unsure_runs(messages: Sequence[RunMessage]) -> tuple[str, ...]:
    """Runs whose messages may not have arrived, and that no later message mentions."""
    mentioned = {run_id for message in messages for run_id in message.mentions}
    return tuple(
        message.run_id
        for message in messages
        if message.of("unsure") and message.run_id not in mentioned
    )
