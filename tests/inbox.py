"""What arrives of the alerts, at an SQS queue that is subscribed to their topic."""

import json


def subscribe(sns, sqs, topic, name):
    """The address of a new queue that gets what the topic tells."""
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn["Attributes"]["QueueArn"])
    return queue


def take(sqs, queue):
    """The messages that came since the last call."""
    found = []
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            found.append(json.loads(message["Body"]))
    return found


class Inbox:
    def __init__(self, aws, name):
        self._sqs = aws.client("sqs")
        self._queue = subscribe(aws.client("sns"), self._sqs, aws.config().topic_arn, name)

    def alerts(self):
        """The messages of benchmark runs that came since the last call."""
        found = take(self._sqs, self._queue)
        return [one for one in found if "kind" in one.get("MessageAttributes", {})]
