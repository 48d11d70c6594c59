"""Puts alerts into words for a run's report, and for its plain-text message to all channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from batchmark.changes.alerts.merging import Merged
from batchmark.changes.alerts.outbox import Delivery, RunMessage
from batchmark.changes.alerts.records import LISTED, Alert, Recovery
from batchmark.changes.alerts.sns_limits import TEXT_BYTES, size, subject_line
from batchmark.changes.metric import Metric
from batchmark.changes.records import WORSE, Change, ChangePoint
from batchmark.changes.shares import Rate
from batchmark.core import formatting
from batchmark.core.names import PAGES
from batchmark.core.output import in_lines
from batchmark.report.change_records import AlertBoard, AlertLine
from batchmark.report.changes import words
from batchmark_job.result.printable import printable

DAG_ID = "change_alert"
GOOD_NEWS = "improved"
FAILED = "failed"
MOST_MENTIONS = 5  # of runs whose messages may not have arrived


@dataclass(frozen=True)
class MessageContext:
    """What a message says besides the changes: the run, links, failures and doubtful deliveries."""

    installation: str
    run: str  # in words
    report_url: str
    log_urls: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by suite, target
    airflow_url: str | None = None  # Airflow's UI; None if not configured
    unsure_runs: Sequence[str] = ()  # runs whose messages may not have arrived
    failures: Sequence[str] = ()  # what failed in this run, in lines


class _Entry(NamedTuple):
    change: Change
    state: str
    lines: Iterable[str]

    @property
    def heading(self) -> str:
        return words.kind(self.change) if self.state == "open" else self.state

    def __str__(self) -> str:
        return in_lines((f"* {words.title(self.change)}", *(f"  {one}" for one in self.lines)))


def build_message(
    merged: Merged,
    alerts: Iterable[Alert],
    context: MessageContext,
    *,
    run_id: str,
    created_at: datetime,
    channels: Sequence[str],
) -> RunMessage | None:
    """Build a run's message, given earlier alerts; None if nothing is new and nothing failed."""
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
        mentions=tuple(context.unsure_runs),
        deliveries=tuple(Delivery(channel=channel) for channel in channels),
    )
    entries = [
        *_new(message.new_alerts, context),
        *_recovered(message.recoveries, known),
        *(
            _Entry(one.change, GOOD_NEWS, list(words.lines(one.change)))
            for one in message.improvements
            if not one.brought_back
        ),
    ]
    if not entries and not context.failures:
        return None
    failed = [FAILED] if context.failures else []
    return message.model_copy(
        update={
            "subject": _subject(entries, context),
            "text": _text(entries, message, context),
            "attributes": {
                # Channels filter by kind, which is slower or faster for metrics, too.
                "kind": tuple(dict.fromkeys([*(entry.change.kind for entry in entries), *failed])),
                "state": tuple(dict.fromkeys([*(entry.state for entry in entries), *failed])),
            },
        }
    )


def _new(alerts: Sequence[Alert], context: MessageContext) -> Iterator[_Entry]:
    for kind in WORSE.values():
        of_kind = [alert for alert in alerts if alert.change.kind == kind]
        for alert in sorted(of_kind, key=lambda alert: words.kind(alert.change)):
            logs = _logs(alert.change.points, context.log_urls)
            lines = (*words.lines(alert.change), *logs, f"alert: {alert.id}")
            yield _Entry(alert.change, "open", lines)


def _recovered(recoveries: Sequence[Recovery], alerts: Mapping[str, Alert]) -> Iterator[_Entry]:
    for found in sorted(recoveries, key=lambda recovery: not recovery.closes):
        alert = alerts[found.alert_id]
        change = alert.change
        whole = formatting.count(len(alert.series), "series", "series")
        state = f"{alert.state} until now" if found.closes else f"still {alert.state}"
        lines = (
            f"{len(found.points)} of {whole} back",
            *words.point_lines(found.points, change.fell_back),
            f"suite: {change.points[0].series.suite}",
            f"what differs since: {'; '.join(words.differences(found.causes))}",
            f"since {words.first_run(change)} ({change.first_run_id}), {state}",
            f"alert: {alert.id}",
        )
        yield _Entry(change, "recovered" if found.closes else "partly recovered", lines)


def _logs(points: Sequence[ChangePoint], log_urls: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yield a link to this run's log for each target that changed; changes in price have none."""
    jobs = dict.fromkeys(
        (point.series.suite, point.series.target)
        for point in points
        if point.metric != Metric.PRICE
    )
    for suite, target in jobs:
        if url := log_urls.get((suite, target)):
            yield f"log of {target}: {url}"


def _counts(entries: Iterable[_Entry]) -> str:
    """Count the entries by heading, for example '2 slower, 1 recovered'."""
    groups = groupby(entries, key=attrgetter("heading"))
    return ", ".join(f"{len(list(group))} {heading}" for heading, group in groups)


def _subject(entries: Sequence[_Entry], context: MessageContext) -> str:
    begin = f"Batchmark {context.installation}: "
    if not entries:
        return subject_line(begin + context.failures[0])
    if len(entries) > 1:
        return subject_line(begin + _counts(entries))
    (only,) = entries
    came_back = "" if only.state in {"open", GOOD_NEWS} else f"{only.state}: "
    return subject_line(f"{begin}{came_back}{words.title(only.change)}")


def _text(entries: Sequence[_Entry], message: RunMessage, context: MessageContext) -> str:
    """Write out as many entries as fit, grouped under headings, and say how many are left."""
    told = _counts(entries) or FAILED
    head = printable(f"Batchmark {context.installation}, {context.run}: {told}.")
    if context.failures:
        head += f"\n\n{FAILED.upper()}\n{in_lines(context.failures)}"
    tail = "\n\n".join(_tail(message, context))
    more = f"And {len(entries)} more; see the report for all of them."
    room = TEXT_BYTES - size("\n\n".join((head, more, tail)))
    parts, heading = [head], ""
    for number, entry in enumerate(entries):
        part = str(entry)
        if entry.heading != heading:
            heading = entry.heading
            part = f"{heading.upper()}\n{part}"
        room -= size(f"\n\n{part}")
        if room < 0:
            parts.append(f"And {len(entries) - number} more; see the report for all of them.")
            break
        parts.append(part)
    return "\n\n".join((*parts, tail))


def _tail(message: RunMessage, context: MessageContext) -> Iterator[str]:
    yield in_lines((f"Report: {context.report_url}", f"Run id: {message.run_id}"))
    if message.new_alerts:
        yield how_to_change(message.new_alerts[0].id, context.airflow_url)
    if message.mentions:
        runs = printable(formatting.shortened_list(message.mentions, MOST_MENTIONS))
        yield (
            f"The messages from these runs may not have arrived: {runs}. Their reports contain "
            "the same information."
        )


def how_to_change(alert_id: str, airflow_url: str | None) -> str:
    """Explain how to acknowledge an alert, or mark it as invalid or fixed."""
    where = (
        f"on its page, {alert_page(airflow_url, alert_id)}"
        if airflow_url
        else f"with Airflow's DAG {DAG_ID}: trigger it with the alert's id"
    )
    return (
        f"Acknowledge an alert, or mark it as invalid or fixed, {where}, or from a shell:\n"
        f"airflow dags trigger {DAG_ID} "
        f'-c \'{{"alert_id": "{alert_id}", "state": "acknowledged"}}\''
    )


def alert_page(airflow_url: str, alert_id: str) -> str:
    """Return the address of the page where an alert's state can be changed."""
    return f"{airflow_url.rstrip('/')}{PAGES}/alerts#{alert_id}"


def alert_board(
    alerts: Sequence[Alert], precision: Rate | None, airflow_url: str | None
) -> AlertBoard:
    """Build a board that lists all open alerts first, then all acknowledged ones."""
    listed = [alert for state in LISTED for alert in alerts if alert.state == state]
    return AlertBoard(
        lines=tuple(_line(alert, airflow_url) for alert in listed),
        precision=precision,
        how_to_change=how_to_change(listed[0].id, airflow_url) if listed else "",
    )


def _line(alert: Alert, airflow_url: str | None) -> AlertLine:
    change = alert.change
    return AlertLine(
        alert_id=alert.id,
        kind=change.kind,
        title=words.title(change),
        suite=change.points[0].series.suite,
        state=alert.state,
        since_run_id=change.first_run_id,
        since=words.first_run(change),
        change=change.points[0].change,
        change_url=alert_page(airflow_url, alert.id) if airflow_url else None,
        note=alert.transitions[-1].note or None,
    )
