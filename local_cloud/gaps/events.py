"""Corrects moto's EventBridge: array patterns, disabled rules, SNS topics and the event format.

Rules can send events to SNS topics and log groups, with input transformers. A disabled rule, or one
without a pattern, matches nothing. A failing target does not affect the others. Not supported:
retries, dead-letter queues, denials by resource policies, and events from services besides Batch.

Replaces moto's `Rule.send_to_targets`, but calls the original for targets that `deliver` refuses.
"""

from __future__ import annotations

import copy
import json
import logging
from datetime import UTC, datetime
from typing import Any

from jsonpath_ng.ext.parser import parse as parse_json_path
from moto.core.utils import iso_8601_datetime_without_milliseconds
from moto.events.models import EventPattern, Rule
from moto.events.utils import EventTemplateParser
from moto.sns.models import sns_backends
from moto.utilities.arns import parse_arn

Event = dict[str, Any]
log = logging.getLogger(__name__)


def fill() -> None:
    EventPattern._flatten_dict = staticmethod(flatten)  # type: ignore[method-assign]
    send_as_moto_does = Rule.send_to_targets

    def send_to_targets(self: Rule, original_event: Event, transform_input: bool = True) -> None:
        pattern = self.event_pattern
        if self.state != "ENABLED" or not pattern.get_pattern():
            return
        if not pattern.matches_event(original_event):  # type: ignore[arg-type]
            return
        for target in list(self.targets):
            try:
                if not deliver(self, target, original_event):
                    alone = copy.copy(self)
                    alone.targets = [target]
                    send_as_moto_does(alone, original_event, transform_input)  # type: ignore[arg-type]
            except Exception:
                # As in AWS, a failing target is not an error for the sender of the event.
                log.exception("rule %s could not deliver an event to %s", self.name, target["Arn"])

    Rule.send_to_targets = send_to_targets  # type: ignore[method-assign,assignment]


def flatten(node: Event, prefix: str = "", result: Event | None = None) -> Event:
    """Return an event's fields keyed by dotted name, merging objects in a list as AWS does."""
    result = {} if result is None else result
    for key, value in node.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            flatten(value, name, result)
            continue
        result[name] = value
        for item in value if isinstance(value, list) else []:
            if isinstance(item, dict):
                for inner, found in flatten(item, name).items():
                    values = result.setdefault(inner, [])
                    values.extend(found if isinstance(found, list) else [found])
    return result


def deliver(rule: Rule, target: Event, event: Event) -> bool:
    """Deliver an event to SNS or, untransformed, to a log group; return False for other targets."""
    arn = parse_arn(target["Arn"])
    if arn.service == "sns":
        topic = sns_backends[arn.account][arn.region].topics[target["Arn"]]
        topic.publish(message(target, event))
        return True
    if arn.service == "logs" and "InputTransformer" not in target:
        # moto would drop the account.
        rule._send_to_cw_log_group(arn.resource_id, without_moto_fields(event))
        return True
    return False


def without_moto_fields(event: Event) -> Event:
    return {key: value for key, value in event.items() if key != "ingestion-time"}


def as_sent(event: Event) -> Event:
    """Return the event in AWS's format, with an ISO 8601 time instead of moto's epoch seconds."""
    sent = without_moto_fields(event)
    if isinstance(sent["time"], int | float):
        time = datetime.fromtimestamp(sent["time"], UTC)
        sent["time"] = iso_8601_datetime_without_milliseconds(time)
    return sent


def message(target: Event, event: Event) -> str:
    """Return what a target receives: a constant, its filled-in template or the whole event."""
    if "Input" in target:
        return str(target["Input"])
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(as_sent(event))
    template, paths = transformer["InputTemplate"], transformer.get("InputPathsMap") or {}
    if template.lstrip().startswith('"'):
        return fill_text(template, paths, as_sent(event))
    return json.dumps(EventTemplateParser.parse(template, paths, event))  # type: ignore[arg-type]


def fill_text(template: str, paths: dict[str, str], event: Event) -> str:
    """Fill in a quoted template. Like AWS, keep the quotes and leave out missing values."""
    for name, path in paths.items():
        found = parse_json_path(path).find(event)
        value = found[0].value if found else ""
        text = value if isinstance(value, str) else json.dumps(value)
        template = template.replace(f"<{name}>", text)
    return template
