"""Extends moto's CloudWatch Logs with events on disk, one-megabyte pages and filter patterns.

FilterLogEvents supports a phrase (`"a phrase"`), any of several words (`?a ?b`) or any of several
substrings (`%a|b%`), and refuses other patterns. A page can be empty even if another page follows.
AWS does not document whether terms match within words; here `?a` matches whole words only.
Retention deletes nothing, and metric filters produce no metrics.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import Any

from moto.core.utils import utcnow
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogGroup, LogStream, logs_backends

from local_cloud.clock import now_milliseconds
from local_cloud.gaps import log_events
from local_cloud.gaps.log_events import HEAD, TAIL, Event, Events, Place

PAGE_BYTES = 2**20  # limit of GetLogEvents and FilterLogEvents
EVENT_BYTES = 26  # overhead of each event besides its message
MOST_EVENTS = 10_000  # limit of GetLogEvents and FilterLogEvents, too
MOST_STREAMS = 100  # limit of FilterLogEvents
# Limit of one search: its page may be empty and still have a next one.
SEARCHED_EVENTS = 200_000
# A time, a block and a line, with as many digits as AWS's tokens.
TOKEN = re.compile(r"(\d{18})(\d{19})(\d{19})")
# The supported patterns: a phrase anywhere, several words of which any matches as a whole, and
# regular expressions of plain words, of which any matches anywhere.
PHRASE = re.compile(r'"((?:[^"\\]|\\.)+)"')
ANY_OF_WORDS = re.compile(r"\?\w+(?:\s+\?\w+)*", re.ASCII)
ANY_ANYWHERE = re.compile(r"%(\w+(?:\|\w+)*)%", re.ASCII)
make_motos, put_in_motos = LogStream.__init__, LogStream.put_log_events


def fill() -> None:
    for owner, name, ours in PATCHES:
        setattr(owner, name, ours)


def make(self: LogStream, log_group: LogGroup, name: str) -> None:
    make_motos(self, log_group, name)
    self.events = Events()  # type: ignore[assignment]


def restore(self: LogStream, state: dict[str, Any]) -> None:
    """Restore a pickled stream; earlier versions stored its events as a list."""
    vars(self).update(state)
    if isinstance(listed := state["events"], list):
        self.events = Events()  # type: ignore[assignment]
        self.events += listed


def update(self: LogStream) -> None:
    self.first_event_timestamp, self.last_event_timestamp = events_of(self).span()  # type: ignore[assignment]


def put_log_events(self: LogStream, log_events: list[dict[str, Any]]) -> str:
    """Store events on disk; use moto's method only for groups with subscription filters."""
    if self.log_group.subscription_filters:
        return put_in_motos(self, log_events)
    for timestamp, some in groupby(log_events, key=itemgetter("timestamp")):
        put(self, timestamp, [event["message"] for event in some])
    return f"{self.upload_sequence_token:056d}"


def put(stream: LogStream, timestamp: int, messages: Sequence[str]) -> None:
    """Store messages that share a timestamp, as PutLogEvents does."""
    if stream.log_group.subscription_filters:
        stream.put_log_events([{"timestamp": timestamp, "message": each} for each in messages])
        return
    events_of(stream).add(timestamp, now_milliseconds(), messages)
    stream.last_ingestion_time = utcnow()
    stream.stored_bytes += sum(map(len, messages))
    stream.upload_sequence_token += 1


def delete_unused() -> None:
    """Delete the events of streams that no longer exist; call this after loading the state."""
    backends = [each for regions in logs_backends.values() for each in regions.values()]
    groups = [group for backend in backends for group in backend.groups.values()]
    streams = [stream for group in groups for stream in group.streams.values()]
    log_events.delete_all_but([events_of(each) for each in streams])


def get_log_events(
    self: LogStream,
    start_time: int | None,
    end_time: int | None,
    limit: int | None,
    next_token: str | None,
    start_from_head: bool,
) -> tuple[list[dict[str, Any]], str, str]:
    """Return a page of events and the tokens for the previous and next pages.

    A token marks a place between two events, so an empty page returns the same token. As in AWS,
    events at `end_time` itself are left out, unlike in FilterLogEvents.
    """
    events, end = events_of(self), end_time or sys.maxsize
    forward, edge = edge_of(next_token, from_head=start_from_head)
    if forward:
        edge = max(edge, (start_time or 0, 0, 0))
        found = list(fitting(events.after(edge, end - 1), limit))
    else:
        edge = min(edge, (end, 0, 0))
        found = list(fitting(events.before(edge, start_time or 0), limit))[::-1]
        edge = edge if edge < TAIL else HEAD  # nothing there yet: everything to come lies after it
    first, behind = (found[0].place, found[-1].next_place) if found else (edge, edge)
    return [shown(event) for event in found], f"b/{token_of(first)}", f"f/{token_of(behind)}"


def edge_of(token: str | None, *, from_head: bool) -> tuple[bool, Place]:
    """Return whether the page starts (rather than ends) at the token's place, and that place."""
    if token is None:
        return from_head, HEAD if from_head else TAIL
    kind, _, place = token.partition("/")
    if kind not in ("f", "b"):
        raise InvalidParameterException("The specified nextToken is invalid.")
    return kind == "f", place_of(place)


def token_of(place: Place) -> str:
    return "{:018d}{:019d}{:019d}".format(*place)


def place_of(token: str) -> Place:
    if (found := TOKEN.fullmatch(token)) is None:
        raise InvalidParameterException("The specified nextToken is invalid.")
    time, block, line = map(int, found.groups())
    return time, block, line


def fitting(events: Iterable[Event], limit: int | None) -> Iterator[Event]:
    """Yield as many events as `limit` and the response size allow, but at least one, if any."""
    left = PAGE_BYTES
    for number, event in enumerate(islice(events, limit or MOST_EVENTS)):
        left -= size(event)
        if number and left < 0:
            return
        yield event


def filter_log_events(
    self: LogGroup,
    log_group_name: str,  # noqa: ARG001 - the group knows its name
    log_stream_names: list[str],
    start_time: int | None,
    end_time: int | None,
    limit: int | None,
    next_token: str | None,
    filter_pattern: str | None,
    interleaved: bool,  # noqa: ARG001 - always interleaved, as in AWS
) -> tuple[list[dict[str, Any]], str | None, list[dict[str, Any]]]:
    """Return matching events in chronological order, the next page's token and an empty list.

    moto expects the third item to list the searched streams. As in AWS, a page can have few events,
    or none, even if another page follows.
    """
    matches = matcher(filter_pattern or "")
    begin = max(place_of(next_token) if next_token else HEAD, (start_time or 0, 0, 0))
    last = end_time or sys.maxsize
    streams = named_streams(self, log_stream_names)
    found = merge(
        *(zip(events_of(each).after(begin, last), repeat(name)) for name, each in streams.items())
    )
    matching: list[dict[str, Any]] = []
    left = PAGE_BYTES
    for number, (event, name) in enumerate(found):
        if number == SEARCHED_EVENTS:
            return matching, token_of(event.place), []
        if matches(event.message):
            left -= size(event)
            if matching and (left < 0 or len(matching) == (limit or MOST_EVENTS)):
                return matching, token_of(event.place), []
            own = {"eventId": str(event.id), "logStreamName": name}
            matching.append({**shown(event), **own})
    return matching, None, []


def matcher(pattern: str) -> Callable[[str], bool]:
    """Build a predicate from a filter pattern. An empty pattern matches every message.

    Raises:
        InvalidParameterException: this kind of pattern is not supported.
    """
    text = pattern.strip()
    if not text:
        return lambda _: True
    if found := PHRASE.fullmatch(text):
        phrase = re.sub(r"\\(.)", r"\1", found[1])
        return lambda message: phrase in message
    if found := ANY_ANYWHERE.fullmatch(text):
        parts = found[1].split("|")
        return lambda message: any(part in message for part in parts)
    if ANY_OF_WORDS.fullmatch(text) is None:
        raise InvalidParameterException(
            'The local cloud supports only filter patterns like "a phrase", ?any ?of ?words '
            f"and %any|of|them%, not {text!r}"
        )
    words = text.replace("?", "").split()
    whole = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.ASCII)
    return lambda message: any(word in message for word in words) and bool(whole.search(message))


def named_streams(group: LogGroup, names: list[str]) -> dict[str, LogStream]:
    """Return the streams with these names, or all streams if `names` is empty."""
    if len(names) > MOST_STREAMS:
        raise InvalidParameterException(f"logStreamNames can have at most {MOST_STREAMS} names")
    if missing := [name for name in names if name not in group.streams]:
        raise ResourceNotFoundException(f"The specified log stream does not exist: {missing[0]}")
    return {name: group.streams[name] for name in names or group.streams}


def events_of(stream: LogStream) -> Events:
    return stream.events  # type: ignore[return-value]


def shown(event: Event) -> dict[str, Any]:
    return {
        "ingestionTime": event.ingested,
        "message": event.message,
        "timestamp": event.timestamp,
    }


def size(event: Event) -> int:
    return len(event.message.encode()) + EVENT_BYTES


PATCHES: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (LogStream, "__init__", make),
    (LogStream, "__setstate__", restore),
    (LogStream, "_update", update),
    (LogStream, "put_log_events", put_log_events),
    (LogStream, "get_log_events", get_log_events),
    (LogGroup, "filter_log_events", filter_log_events),
)
