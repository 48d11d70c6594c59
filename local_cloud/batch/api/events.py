"""Sends Batch's events to EventBridge: job state changes and blocked queues."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from moto.events.models import events_backends
from moto.moto_api._internal import mock_random

if TYPE_CHECKING:
    from local_cloud.batch.scheduling.scheduler import Scheduler

STATE_CHANGE = "Batch Job State Change"
QUEUE_BLOCKED = "Batch Job Queue Blocked"

log = logging.getLogger(__name__)


Event = dict[str, Any]


class Sender:
    """Delivers events in order, on its own thread so that jobs don't have to wait.

    After each delivery, it saves the state of all jobs to disk, if `--state` is given.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def send(self, event: Event) -> None:
        self._events.put(event)
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            event = self._events.get()
            try:
                deliver(event)
                self._scheduler.save()
            except Exception:
                # The thread must survive to deliver the next event.
                log.exception("could not deliver an event about %s", event["resources"])


def rules(account: str, region: str) -> dict[str, Any]:
    found: dict[str, Any] = events_backends[account][region].event_buses["default"].rules
    return found


def new_event(
    account: str, region: str, detail_type: str, resources: list[str], detail: dict[str, Any]
) -> Event:
    """Build an EventBridge event with Batch as its source and the current time."""
    now = time.time()
    return {
        "detail-type": detail_type,
        "source": "aws.batch",
        "account": account,
        "time": now,
        "region": region,
        "resources": resources,
        "detail": detail,
        "ingestion-time": now,
    }


def deliver(event: Event) -> None:
    for rule in list(rules(event["account"], event["region"]).values()):
        rule.send_to_targets({"version": "0", "id": str(mock_random.uuid4()), **event})
