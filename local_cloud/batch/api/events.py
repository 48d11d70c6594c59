"""Events of jobs, to EventBridge: "Batch Job State Change" and "Batch Job Queue Blocked"."""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moto.events.models import events_backends
from moto.moto_api._internal import mock_random

if TYPE_CHECKING:
    from collections.abc import Callable

STATE_CHANGE = "Batch Job State Change"
QUEUE_BLOCKED = "Batch Job Queue Blocked"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """One event, as it was when the job changed."""

    account: str
    region: str
    detail_type: str
    resources: list[str]
    detail: dict[str, Any]
    time: float = field(default_factory=time.time)


class Sender:
    """Hands events to the rules, in order, from a thread of its own: no job ever waits for it.

    `keep` is called after each: it writes down what came of it.
    """

    def __init__(self, keep: Callable[[], None]) -> None:
        self._keep = keep
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def wanted(self, account: str, region: str) -> bool:
        """Whether any rule could match; without one, no event need be described."""
        return bool(rules(account, region))

    def send(self, event: Event) -> None:
        """Deliver the event soon; returns at once."""
        self._events.put(event)
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            event = self._events.get()
            try:
                offer(event)
                self._keep()
            except Exception:
                # The next event must not go missing for it.
                log.exception("an event of %s was lost", event.resources)


def rules(account: str, region: str) -> dict[str, Any]:
    """The rules of the default event bus, by name."""
    found: dict[str, Any] = events_backends[account][region].event_buses["default"].rules
    return found


def offer(event: Event) -> None:
    """Offer an event to every rule there is now."""
    for rule in list(rules(event.account, event.region).values()):
        rule.send_to_targets(
            {
                "version": "0",
                "id": str(mock_random.uuid4()),
                "detail-type": event.detail_type,
                "source": "aws.batch",
                "account": event.account,
                "time": event.time,
                "region": event.region,
                "resources": event.resources,
                "detail": event.detail,
                "ingestion-time": event.time,
            }
        )
