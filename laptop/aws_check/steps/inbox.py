"""The check's own SQS queue, which receives messages from the alerts topic."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from laptop.aws_check.check import Check
from laptop.aws_check.inputs import NAME
from laptop.aws_check.step import Seen

QUEUE = f"{NAME}-inbox"


def open_inbox(check: Check) -> Seen:
    """Create the queue, let the alerts topic send to it, and subscribe it to that topic."""
    sqs, topic = check.clients("sqs"), check.config.topic_arn
    url = sqs.create_queue(QueueName=QUEUE, tags={"Project": NAME})["QueueUrl"]
    arn = _arn(sqs, url)
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
            }
        ],
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    check.clients("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return Seen(f"{QUEUE} is subscribed to the topic")


def messages(check: Check) -> list[str]:
    """Receive and delete up to ten of the messages in the queue."""
    sqs = check.clients("sqs")
    url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    found = answer.get("Messages", ())
    for one in found:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    return [str(json.loads(one["Body"]).get("Message", "")) for one in found]


def remove_inbox(check: Check) -> None:
    """Delete the queue if it exists; its subscription ends when the topic is deleted."""
    sqs = check.clients("sqs")
    with suppress(sqs.exceptions.QueueDoesNotExist):
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"])


def _arn(sqs: Any, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])
