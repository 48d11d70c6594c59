"""What arrives of the alerts."""

import json


class Inbox:
    """An SQS queue that is subscribed to the alert topic."""

    def __init__(self, aws, name):
        self._sqs = aws.client("sqs")
        self._url = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        aws.client("sns").subscribe(
            TopicArn=aws.config().topic_arn,
            Protocol="sqs",
            Endpoint=arn["Attributes"]["QueueArn"],
        )

    def alerts(self):
        """The messages of benchmark runs that came since the last call."""
        found = []
        while messages := self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in messages:
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"]))
        return [one for one in found if "kind" in one.get("MessageAttributes", {})]
