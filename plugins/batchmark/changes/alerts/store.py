"""Stores alerts, improvements and messages as objects under `alerts/` in the result bucket.

Several tasks can change the same object, so a write fails if it has changed since it was read.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from batchmark.changes.alerts.outbox import RunMessage
from batchmark.changes.alerts.records import LISTED, Alert, Improvement
from batchmark.core.errors import AlertError
from batchmark.core.names import slug, url_safe
from batchmark.core.record import Record, first_problem

if TYPE_CHECKING:
    from batchmark.aws.result_bucket import RunStore

FOLDER = "alerts/"
IMPROVEMENTS = f"{FOLDER}improvements/"
MESSAGES = f"{FOLDER}messages/"
MOST_TRIES = 10  # judgment: few tasks write at once, so ten lost races have another cause

Kept = TypeVar("Kept", bound=Record)


class AlertStore:
    def __init__(self, store: RunStore) -> None:
        self._store = store

    def alerts(self) -> list[Alert]:
        """Return all alerts, open or closed, sorted by when they were opened."""
        keys = [key for key in self._store.keys(FOLDER) if "/" not in key.removeprefix(FOLDER)]
        alerts = [self._read(key, Alert) for key in keys]
        return sorted(alerts, key=lambda alert: (alert.transitions[0].at, alert.id))

    def improvements(self) -> list[Improvement]:
        return [self._read(key, Improvement) for key in self._store.keys(IMPROVEMENTS)]

    def messages(self) -> list[RunMessage]:
        """Return the messages of all runs, oldest first."""
        messages = [self._read(key, RunMessage) for key in self._store.keys(MESSAGES)]
        return sorted(messages, key=lambda message: message.created_at)

    def message_key(self, run_id: str) -> str:
        """Return the key for a run's message, stored or not; keys used by release 0.1 are kept."""
        key, earlier = (f"{MESSAGES}{name(run_id)}.json" for name in (slug, url_safe))
        if earlier == key or self._store.read_if_there(key) is not None:
            return key
        found = self._store.record(RunMessage, earlier)
        return earlier if found and found.run_id == run_id else key

    def message(self, run_id: str) -> RunMessage | None:
        """Return a run's message, or None if it had nothing to announce."""
        key = self.message_key(run_id)
        text = self._store.read_if_there(key)
        return None if text is None else _parse(key, text, RunMessage)

    def create(self, message: RunMessage) -> RunMessage:
        """Store a run's message unless one is already stored; return the stored one."""
        key = self.message_key(message.run_id)
        if self._store.swap(key, message.model_dump_json(indent=2), None):
            return message
        return self._read(key, RunMessage)

    def apply(self, message: RunMessage) -> None:
        """Carry out any of the message's decisions that haven't been carried out yet."""
        for alert in message.opened:
            self._store.swap(_alert_key(alert.id), alert.model_dump_json(indent=2), None)
        for improvement in message.improvements:
            key = f"{IMPROVEMENTS}{improvement.id}.json"
            self._store.swap(key, improvement.model_dump_json(indent=2), None)
        for recovery in message.recoveries:
            self.change_alert(recovery.alert_id, methodcaller("recover", recovery))

    def change_alert(self, alert_id: str, change: Callable[[Alert], Alert]) -> Alert:
        """Change an alert, even while others change it; `change` might be called several times.

        Raises:
            AlertError: there is no such alert, others keep changing it, or `change` raised the
                error.
        """
        try:
            return self._change(_alert_key(alert_id), Alert, change)
        except KeyError:
            found = self.alerts()
            ids = [alert.id for state in LISTED for alert in found if alert.state == state]
            raise AlertError(
                f"there is no alert {alert_id!r}; open or acknowledged alerts: "
                f"{', '.join(ids) or 'none'}"
            ) from None

    def change_message(self, run_id: str, change: Callable[[RunMessage], RunMessage]) -> RunMessage:
        """Change a run's message like `change_alert`, but raise KeyError if there is none."""
        return self._change(self.message_key(run_id), RunMessage, change)

    def _change(self, key: str, model: type[Kept], change: Callable[[Kept], Kept]) -> Kept:
        for _ in range(MOST_TRIES):
            found = self._store.read_version(key)
            if found is None:
                raise KeyError(key)
            text, version = found
            before = _parse(key, text, model)
            after = change(before)
            if after == before:
                return before
            if self._store.swap(key, after.model_dump_json(indent=2), version):
                return after
        raise AlertError(
            f"{key} was changed by other processes {MOST_TRIES} times during this update; try again"
        )

    def _read(self, key: str, model: type[Kept]) -> Kept:
        return _parse(key, self._store.read(key), model)


def _alert_key(alert_id: str) -> str:
    return f"{FOLDER}{alert_id}.json"


def _parse(key: str, text: bytes, model: type[Kept]) -> Kept:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise AlertError(
            f"{key} can't be read: {first_problem(error)}; restore an older version of this "
            "object, or run the release that wrote it"
        ) from error
