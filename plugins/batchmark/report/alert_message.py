"""The one message of a run: what is new, by kind, in plain text that every channel takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from batchmark import change_words, figures
from batchmark.alerts.outbox import Delivery, RunMessage
from batchmark.alerts.sns_limits import TEXT_BYTES, size, subject_line
from batchmark.change_records import WORSE

if TYPE_CHECKING:
    from datetime import datetime

    from batchmark.alerts.merging import Merged
    from batchmark.alerts.records import Alert, Improvement, Recovery
    from batchmark.change_records import ChangePoint

DAG_ID = "change_alert"
GOOD_NEWS = "improved"
MOST_MENTIONS = 5


@dataclass(frozen=True)
class Surroundings:
    """What a message says beside the changes themselves.

    Attributes:
        log_urls: of the run's jobs, by suite and target.
        airflow_url: of Airflow's UI; none where it is not configured.
        unsure_runs: whose messages may not have arrived.
    """

    installation: str
    report_url: str
    log_urls: Mapping[tuple[str, str], str] = field(default_factory=dict)
    airflow_url: str | None = None
    unsure_runs: Sequence[str] = ()


@dataclass(frozen=True)
class _Entry:
    kind: str
    state: str
    title: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((f"* {self.title}", *(f"  {line}" for line in self.lines)))


def build_message(
    merged: Merged,
    alerts: Iterable[Alert],
    surroundings: Surroundings,
    *,
    run_id: str,
    created_at: datetime,
    channels: Sequence[str],
    hold_until: datetime | None,
) -> RunMessage | None:
    """The message of a run; None if nothing is new.

    Args:
        alerts: all that were there before the run.
    """
    known = {alert.id: alert for alert in (*alerts, *merged.opened)}
    message = RunMessage(
        run_id=run_id,
        created_at=created_at,
        subject="",
        text="",
        attributes={},
        opened=merged.opened,
        recoveries=merged.recoveries,
        improvements=merged.improvements,
        mentions=tuple(surroundings.unsure_runs),
        hold_until=hold_until,
        deliveries=tuple(Delivery(channel=channel) for channel in channels),
    )
    entries = [
        *_new(message.new_alerts, surroundings),
        *_recovered(message.recoveries, known),
        *_improved(message.improvements),
    ]
    if not entries:
        return None
    return message.model_copy(
        update={
            "subject": _subject(entries, surroundings),
            "text": _text(entries, message, surroundings),
            "attributes": {
                "kind": tuple(dict.fromkeys(entry.kind for entry in entries)),
                "state": tuple(dict.fromkeys(entry.state for entry in entries)),
            },
        }
    )


def _new(alerts: Sequence[Alert], around: Surroundings) -> Iterator[_Entry]:
    for kind in WORSE.values():
        for alert in alerts:
            change = alert.change
            if change.kind == kind:
                lines = (
                    *change_words.lines(change),
                    *_logs(change.points, around.log_urls),
                    f"alert: {alert.id}",
                )
                yield _Entry(kind, "open", change_words.title(change), lines)


def _recovered(recoveries: Sequence[Recovery], alerts: Mapping[str, Alert]) -> Iterator[_Entry]:
    for found in sorted(recoveries, key=lambda one: not one.closes):
        alert = alerts[found.alert_id]
        change = alert.change
        lines = (
            f"{len(found.points)} of {figures.count(len(alert.series), 'series', 'series')} back",
            *change_words.point_lines(found.points, change.fell_back),
            f"suite: {change.points[0].series.suite}",
            f"it was so since run {change.first_run_id}, {alert.state} until now"
            if found.closes
            else f"it is so since run {change.first_run_id}, and stays {alert.state}",
            f"alert: {alert.id}",
        )
        yield _Entry(
            kind=change.kind,
            state="recovered" if found.closes else "partly recovered",
            title=change_words.title(change),
            lines=lines,
        )


def _improved(improvements: Sequence[Improvement]) -> Iterator[_Entry]:
    for one in improvements:
        if not one.brought_back:
            title, lines = change_words.title(one.change), tuple(change_words.lines(one.change))
            yield _Entry(one.change.kind, GOOD_NEWS, title, lines)


def _logs(points: Sequence[ChangePoint], log_urls: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Where to read what the jobs of this run did; a price has none."""
    jobs = dict.fromkeys(
        (point.series.suite, point.series.target) for point in points if point.metric != "price"
    )
    for suite, target in jobs:
        if url := log_urls.get((suite, target)):
            yield f"log of {target}: {url}"


def _heading(entry: _Entry) -> str:
    return entry.kind if entry.state == "open" else entry.state


def _counts(entries: Iterable[_Entry]) -> str:
    """Such as '2 slower, 1 recovered'."""
    return ", ".join(
        f"{len(list(group))} {heading}" for heading, group in groupby(entries, key=_heading)
    )


def _subject(entries: Sequence[_Entry], around: Surroundings) -> str:
    begin = f"Batchmark {around.installation}: "
    if len(entries) > 1:
        return subject_line(begin + _counts(entries))
    (only,) = entries
    came_back = "" if only.state in {"open", GOOD_NEWS} else f"{only.state}: "
    return subject_line(f"{begin}{came_back}{only.title}")


def _text(entries: Sequence[_Entry], message: RunMessage, around: Surroundings) -> str:
    """All entries that fit, each group under its heading; the rest is counted."""
    head = f"Batchmark {around.installation}, run {message.run_id}: {_counts(entries)}."
    tail = "\n\n".join(_tail(message, around))
    more = f"And {len(entries)} more; the report has all."
    room = TEXT_BYTES - size("\n\n".join((head, more, tail)))
    parts, heading = [head], ""
    for number, entry in enumerate(entries):
        part = str(entry)
        if _heading(entry) != heading:
            heading = _heading(entry)
            part = f"{heading.upper()}\n{part}"
        room -= size(f"\n\n{part}")
        if room < 0:
            parts.append(f"And {len(entries) - number} more; the report has all.")
            break
        parts.append(part)
    return "\n\n".join((*parts, tail))


def _tail(message: RunMessage, around: Surroundings) -> Iterator[str]:
    yield f"Report: {around.report_url}"
    if message.new_alerts:
        yield how_to_change(message.new_alerts[0].id, around.airflow_url)
    if message.mentions:
        shown = ", ".join(message.mentions[:MOST_MENTIONS])
        rest = len(message.mentions) - MOST_MENTIONS
        more = f" and {rest} more" if rest > 0 else ""
        yield (
            f"The messages of these runs may not have arrived: {shown}{more}. Their reports have "
            "what they say."
        )


def how_to_change(alert_id: str, airflow_url: str | None) -> str:
    """How a person acknowledges an alert, or says that it is invalid or fixed."""
    page = f" ({alert_page(airflow_url)})" if airflow_url else ""
    return (
        f"Acknowledge an alert, or call it invalid or fixed, with Airflow's DAG {DAG_ID}{page}: "
        "trigger it with the alert's id, or from a shell:\n"
        f"airflow dags trigger {DAG_ID} "
        f'-c \'{{"alert_id": "{alert_id}", "state": "acknowledged"}}\''
    )


def alert_page(airflow_url: str) -> str:
    """Where the form is behind the button 'Trigger': no address of Airflow 3.3 opens it itself."""
    return f"{airflow_url.rstrip('/')}/dags/{DAG_ID}"
