"""An AWS account with a result bucket, an alert topic and a subscriber, and tasks' contexts."""

from types import SimpleNamespace

import boto3
import pytest

from batchmark.aws.result_bucket import RunStore
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.store import AlertStore
from batchmark.orchestration.tasks import alerts as alert_tasks
from tests.builders.alerts import run_id
from tests.builders.leaks import config
from tests.inbox import subscribe, take
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.moto_account import moto_account, moto_client


@pytest.fixture
def bucket():
    return MemoryBucket(config().bucket, config().region)


@pytest.fixture
def published(monkeypatch, bucket):
    """What Terraform published of the account, as the tasks read it; a queue has subscribed."""
    with moto_account():
        region = config().region
        sns, sqs = (moto_client(name, region_name=region) for name in ("sns", "sqs"))
        topic = sns.create_topic(Name="lab-alerts")["TopicArn"]
        subscribe(sns, sqs, topic, "subscriber")
        found = config(topic_arn=topic)
        monkeypatch.setattr(alert_tasks, "load_config", lambda: found)
        monkeypatch.setattr(
            boto3,
            "client",
            lambda name, **named: bucket if name == "s3" else moto_client(name, **named),
        )
        yield found


def received(of):
    """Take the messages that the topic's subscriber got."""
    sqs = moto_client("sqs", region_name=of.region)
    return take(sqs, sqs.get_queue_url(QueueName="subscriber")["QueueUrl"])


@pytest.fixture
def store(bucket):
    return RunStore(bucket, config().bucket, run_id(30))


@pytest.fixture
def alerts(store):
    return AlertStore(store)


@pytest.fixture
def set_up(monkeypatch):
    """Sets the variable batchmark_alerts; at first it is empty."""

    def set_variable(**fields):
        found = AlertSettings.model_validate(fields)
        monkeypatch.setattr(alert_tasks, "load_alert_settings", lambda: found)

    set_variable()
    return set_variable


@pytest.fixture
def context():
    dag_run = SimpleNamespace(triggering_user_name="ada")
    return {"run_id": run_id(30), "params": {}, "dag_run": dag_run}
