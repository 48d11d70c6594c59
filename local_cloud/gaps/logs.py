"""CloudWatch Logs: pages of a megabyte, and patterns that log events are filtered by."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice, repeat
from operator import attrgetter
from typing import Any

from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogEvent, LogGroup, LogStream

PAGE_BYTES = 2**20
EVENT_BYTES = 26  # that each event counts beside its message
MOST_EVENTS = 10_000
MOST_STREAMS = 100
# What one call looks through: its page may be empty and have a successor all the same.
SEARCHED_EVENTS = 200_000
# The patterns that are there: a phrase anywhere, words, of which any is found as a whole, and
# regular expressions of words alone, of which any is found anywhere.
PHRASE = re.compile(r'"((?:[^"\\]|\\.)+)"')
ANY_OF_WORDS = re.compile(r"\?\w+(?:\s+\?\w+)*", re.ASCII)
ANY_ANYWHERE = re.compile(r"%(\w+(?:\|\w+)*)%", re.ASCII)


def fill() -> None:
    LogStream.get_log_events = get_log_events  # type: ignore[assignment]
    LogGroup.filter_log_events = filter_log_events  # type: ignore[method-assign]


def get_log_events(
    self: LogStream,
    start_time: int | None,
    end_time: int | None,
    limit: int | None,
    next_token: str | None,
    start_from_head: bool,
) -> tuple[list[dict[str, Any]], str, str]:
    """A page, and tokens of the one before and the one behind it.

    A token's number is a position between events, so that a page with nothing repeats it. As in
    AWS, and other than in FilterLogEvents, events at `end_time` itself are left out.
    """
    events = ordered(self.events, start_time, end_time and end_time - 1)
    forward, edge = edge_of(next_token, len(events), from_head=start_from_head)
    if forward:
        found = list(fitting(islice(events, edge, None), limit))
        first = edge
    else:
        found = list(fitting((events[index] for index in range(edge - 1, -1, -1)), limit))[::-1]
        first = edge - len(found)
    shown = [event.to_response_dict() for event in found]
    return shown, f"b/{first:056d}", f"f/{first + len(found):056d}"


def edge_of(token: str | None, count: int, *, from_head: bool) -> tuple[bool, int]:
    """Whether a page begins at a position, or else ends there, and the position."""
    if token is None:
        return from_head, 0 if from_head else count
    kind, _, position = token.partition("/")
    if kind not in ("f", "b") or not position.isdigit():
        raise InvalidParameterException("The specified nextToken is invalid.")
    return kind == "f", min(int(position), count)


def ordered(
    events: Iterable[LogEvent], start_time: int | None, end_time: int | None
) -> list[LogEvent]:
    """The events from one time to another, by time; None or 0: no limit."""
    if start_time or end_time:
        start, end = start_time or 0, end_time or math.inf
        events = [event for event in events if start <= event.timestamp <= end]
    return sorted(events, key=attrgetter("timestamp"))


def fitting(events: Iterable[LogEvent], limit: int | None) -> Iterator[LogEvent]:
    """As many as one answer holds, and one at least."""
    left = PAGE_BYTES
    for number, event in enumerate(islice(events, limit or MOST_EVENTS)):
        left -= size(event)
        if number and left < 0:
            return
        yield event


def filter_log_events(
    self: LogGroup,
    log_group_name: str,  # noqa: ARG001 - its own
    log_stream_names: list[str],
    start_time: int | None,
    end_time: int | None,
    limit: int | None,
    next_token: str | None,
    filter_pattern: str | None,
    interleaved: bool,  # noqa: ARG001 - always, as in AWS
) -> tuple[list[dict[str, Any]], str | None, list[dict[str, Any]]]:
    """A page of the events that match, by time, the next page's token, and no streams.

    As in AWS, a page with few events or none may have a next one.
    """
    matches = matcher(filter_pattern or "")
    if next_token is not None and not next_token.isdigit():
        raise InvalidParameterException("The specified nextToken is invalid.")
    streams = {
        name: ordered(stream.events, start_time, end_time)
        for name, stream in named_streams(self, log_stream_names).items()
    }
    # Not a list: jobs print a million lines.
    found = merge(
        *(zip(events, repeat(name)) for name, events in streams.items()),
        key=lambda each: each[0].timestamp,
    )
    searched = int(next_token or 0)
    matching: list[dict[str, Any]] = []
    left = PAGE_BYTES
    for event, name in islice(found, searched, searched + SEARCHED_EVENTS):
        if matches(event.message):
            left -= size(event)
            if matching and (left < 0 or len(matching) == (limit or MOST_EVENTS)):
                break
            matching.append({**event.to_filter_dict(), "logStreamName": name})
        searched += 1
    return matching, str(searched) if searched < sum(map(len, streams.values())) else None, []


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a filter pattern finds a message; one without terms finds all.

    Raises:
        InvalidParameterException: the pattern is of a kind that is not there.
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
            'The local cloud has filter patterns like "a phrase", ?any ?of ?words and %any|of|them%'
            f", not {text!r}"
        )
    words = text.replace("?", "").split()
    whole = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.ASCII)
    return lambda message: any(word in message for word in words) and bool(whole.search(message))


def named_streams(group: LogGroup, names: list[str]) -> dict[str, LogStream]:
    """The streams with these names; without any, all."""
    if len(names) > MOST_STREAMS:
        raise InvalidParameterException(f"logStreamNames can have at most {MOST_STREAMS} names")
    if missing := [name for name in names if name not in group.streams]:
        raise ResourceNotFoundException(f"The specified log stream does not exist: {missing[0]}")
    return {name: group.streams[name] for name in names or group.streams}


def size(event: LogEvent) -> int:
    return len(event.message.encode()) + EVENT_BYTES
