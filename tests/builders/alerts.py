"""Changes, alerts and an account for the tests of alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from moto import mock_aws

from batchmark.alerts.merging import Merged, merge
from batchmark.alerts.outbox import Delivery, RunMessage
from batchmark.alerts.records import Alert, Improvement
from batchmark.alerts.settings import AlertSettings
from batchmark.change_records import (
    BETTER,
    WORSE,
    Change,
    ChangePoint,
    Level,
    RunChanges,
    SeriesKey,
)
from batchmark.config import Config
from batchmark.store import RunStore
from tests.unit.guard_builders import config

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
FIRST_RUN = datetime(2026, 6, 1, 3, tzinfo=UTC)


def run_id(number: int) -> str:
    return f"run-{number}"


def series(**fields: Any) -> SeriesKey:
    values: dict[str, Any] = {
        "suite": "blog",
        "target": "g5.xlarge",
        "actual_device": "cuda",
        "instance_type": "g5.xlarge",
        "cpu_model": "AMD EPYC 7R32",
        "gpu_model": "NVIDIA A10G",
        "workload": "matmul",
        "parameters": '{"size":5000}',
        "dtype": "float32",
    }
    return SeriesKey(**values | fields)


def some_series(count: int) -> list[SeriesKey]:
    return [series(parameters=f'{{"size":{size}}}') for size in range(1000, 1000 + count)]


def point(
    first: int = 20,
    before: float = 0.010,
    after: float = 0.012,
    *,
    of: SeriesKey | None = None,
    metric: str = "time",
    near: int = 2,
    **fields: Any,
) -> ChangePoint:
    """A series that moved with run number `first`; `near` runs on each side may be meant, too."""
    values: dict[str, Any] = {
        "series": of or series(),
        "metric": metric,
        "first_run_id": run_id(first),
        "first_recorded_at": FIRST_RUN + timedelta(weeks=first),
        "last_run_id": run_id(first - 1),
        "near_run_ids": tuple(run_id(n) for n in range(first - near, first + near + 1)),
        "before": Level(median=before, spread=0.008, runs=first - 1),
        "after": Level(median=after, spread=0.011, runs=3),
        "change": after / before - 1,
        "p_value": 0.0004,
    }
    return ChangePoint(**values | fields)


def change(*points: ChangePoint, **fields: Any) -> Change:
    points = points or (point(),)
    kinds = WORSE if points[0].worse else BETTER
    values: dict[str, Any] = {
        "kind": kinds[points[0].metric],
        "points": points,
        "environment": False,
        "causes": (),
        "usd_per_month": 12.4,
    }
    return Change(**values | fields)


def moved(first: int, before: float, after: float, of: list[SeriesKey]) -> Change:
    """Many series that moved together."""
    return change(*(point(first, before, after, of=one) for one in of), environment=True)


def opened(*changes: Change) -> list[Alert]:
    """Alerts as an earlier run opened them."""
    return [
        Alert.opened(one, run_id="run-early", at=NOW - timedelta(days=7))
        for one in changes or (change(),)
    ]


def in_state(alert: Alert, *states: str) -> Alert:
    """The alert after these states, one after the other."""
    for number, state in enumerate(states):
        alert = alert.become(state, at=NOW, by="ada", run_id=f"manual-{number}")
    return alert


def merged(
    changes: Sequence[Change],
    alerts: Sequence[Alert] = (),
    told: Sequence[Improvement] = (),
    **settings: Any,
) -> Merged:
    """What run 30 adds, with these settings, to alerts and to improvements that were told."""
    return merge(alerts, told, changes, AlertSettings(**settings), run_id=run_id(30), at=NOW)


def message(run: str = "run-30", channels: tuple[str, ...] = ("sns",), **fields: Any) -> RunMessage:
    values: dict[str, Any] = {
        "run_id": run,
        "created_at": NOW,
        "subject": "Batchmark lab: 1 slower",
        "text": "1 slower",
        "attributes": {"kind": ("slower",), "state": ("open",)},
        "opened": tuple(opened()),
        "recoveries": (),
        "improvements": (),
        "deliveries": tuple(Delivery(channel=channel) for channel in channels),
    }
    return RunMessage(**values | fields)


@contextmanager
def account(monkeypatch: Any) -> Iterator[Config]:
    """moto's empty account but for the bucket and the alert topic, with a queue subscribed."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        region = config().region
        sns, sqs = (boto3.client(name, region_name=region) for name in ("sns", "sqs"))
        topic = sns.create_topic(Name="lab-alerts")["TopicArn"]
        queue = sqs.create_queue(QueueName="subscriber")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn["Attributes"]["QueueArn"])
        published = config(topic_arn=topic)
        boto3.client("s3", region_name=region).create_bucket(
            Bucket=published.bucket, CreateBucketConfiguration={"LocationConstraint": region}
        )
        yield published


def received(of: Config) -> list[dict[str, Any]]:
    """What the queue that is subscribed to the topic got, and take it from there."""
    import json

    sqs = boto3.client("sqs", region_name=of.region)
    queue = sqs.get_queue_url(QueueName="subscriber")["QueueUrl"]
    found = []
    while answer := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for one in answer:
            found.append(json.loads(one["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=one["ReceiptHandle"])
    return found


def store_changes(store: RunStore, *changes: Change) -> str:
    """A run's changes.json; its key."""
    return store.write(
        "changes.json", RunChanges(run_id=run_id(30), changes=changes).model_dump_json()
    )
