"""Sends messages through channels: the SNS alert topic and Airflow's Apprise connections."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from batchmark.changes.alerts.delivering import UnsureError
from batchmark.changes.alerts.outbox import RunMessage
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.sns_limits import cut, subject_line
from batchmark.core.config import Config
from batchmark.core.errors import AlertError

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from apprise import Apprise, NotifyBase

TOPIC = "sns"
APPRISE = "apprise:"
LONGEST_SEND_SECONDS = 60  # botocore's default; later, a message counts as perhaps sent
APPRISE_LOGGER = "apprise"
TELLING_LOGGERS = (APPRISE_LOGGER, "urllib3.connectionpool")
SHORTEST_SECRET = 4  # shorter parts are often ordinary words, such as "to"
PLAIN_PARTS = {"config", "path"}  # keys in a connection's extra, not secrets


def channels_of(config: Config, settings: AlertSettings) -> tuple[str, ...]:
    """Return the channels to use: any alert topic, and the connections named in the settings."""
    topic = (TOPIC,) if config.topic_arn else ()
    conn_ids = dict.fromkeys(settings.apprise_conn_ids)
    return (*topic, *(f"{APPRISE}{conn_id}" for conn_id in conn_ids))


def send(config: Config, channel: str, message: RunMessage) -> str:
    """Send a message through a channel without retrying, and return the channel's receipt.

    Raises:
        UnsureError: the message may or may not have arrived.
        AlertError: the message did not arrive.
    """
    if channel == TOPIC:
        return publish(config, message.subject, message.text, message.attributes)
    return notify(channel.removeprefix(APPRISE), message.subject, message.text)


def publish(
    config: Config, subject: str, text: str, attributes: Mapping[str, Sequence[str]]
) -> str:
    """Publish to the alert topic, with attributes for filter policies; return the message id.

    Raises:
        UnsureError, AlertError: as for `send`.
    """
    from airflow.providers.amazon.aws.hooks.sns import SnsHook
    from botocore.config import Config as BotoConfig
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    if config.topic_arn is None:
        raise AlertError(
            "no alert topic is configured: add one with Terraform, or set apprise_conn_ids"
        )
    # botocore would resend what got no answer, and the topic would deliver it twice.
    once = BotoConfig(
        retries={"total_max_attempts": 1}, connect_timeout=10, read_timeout=LONGEST_SEND_SECONDS
    )
    hook = SnsHook(aws_conn_id=None, region_name=config.region, config=once)
    try:
        answer = hook.publish_to_target(
            config.topic_arn, cut(text), subject_line(subject), dict(attributes)
        )
    except HTTPClientError as error:  # connected, and then no answer
        raise UnsureError(f"SNS did not respond: {error}") from error
    except (BotoCoreError, ClientError) as error:
        raise AlertError(f"SNS did not accept the message: {error}") from error
    return str(answer["MessageId"])


def notify(conn_id: str, subject: str, text: str) -> str:
    """Send a message to all of a connection's services; return how many there were, as text.

    Each service is notified separately, because the hook's `notify` discards Apprise's result, and
    Apprise before 2.0, which MWAA uses, only reports whether all services accepted the message.

    Raises:
        UnsureError: only some services accepted it, or one did not respond in time.
        AlertError: no service accepted it, or the connection can't be used.
    """
    from apprise import Apprise, NotifyType

    try:
        services, redaction = apprise_services(conn_id)
    except AlertError:
        raise
    except Exception as error:
        raise AlertError(f"connection {conn_id!r} can't be read: {error!r}") from error

    def send_to(service: NotifyBase) -> bool:
        return bool(
            Apprise(service).notify(
                body=text, title=subject, notify_type=NotifyType.WARNING, body_format="text"
            )
        )

    pool = ThreadPoolExecutor(len(services))
    with redaction.of_logs() as warnings:
        sending = [pool.submit(send_to, service) for service in services]
        done, unanswered = wait(sending, LONGEST_SEND_SECONDS)
        pool.shutdown(wait=False)
    took = sum(one.result() for one in done)
    if took == len(services):
        return f"{took} service(s)"
    reason = (
        f"{conn_id}: {took} of {len(services)} service(s) accepted the message: "
        f"{'; '.join(warnings)}"
    )
    if took or unanswered:
        raise UnsureError(reason)
    raise AlertError(reason)


class Redaction(logging.Filter):
    """Redacts parts of a connection's URLs that could be secrets, such as tokens, in log records.

    Apprise logs all or part of any URL it can't use; at DEBUG, urllib3 logs every request.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        urls = re.sub(r"[\w+-]+://", " ", connection.extra or "")
        parts = re.split(r"[\s/:@?&=,;\"\\{}\[\]]+", f"{urls} {unquote(urls)}")
        self._secrets = {part for part in parts if len(part) >= SHORTEST_SECRET} - PLAIN_PARTS
        self._warnings: list[str] = []

    def hide(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.hide(record.getMessage()), None
        is_warning = record.name == APPRISE_LOGGER and record.levelno >= logging.WARNING
        if is_warning and record.msg not in self._warnings:
            self._warnings.append(record.msg)
        return True

    @contextmanager
    def of_logs(self) -> Iterator[list[str]]:
        """Redact logs in a `with` block; yield a list that gathers Apprise's distinct warnings."""
        self._warnings = []
        loggers = [logging.getLogger(name) for name in TELLING_LOGGERS]
        for logger in loggers:
            logger.addFilter(self)
        try:
            yield self._warnings
        finally:
            for logger in loggers:
                logger.removeFilter(self)


def apprise_services(conn_id: str) -> tuple[Apprise, Redaction]:
    """Return an Airflow connection's services, and a filter that keeps its secrets out of logs.

    Raises:
        AlertError: the connection does not exist, is invalid, or names no service that Apprise
            knows. Errors from the connection backend are passed on.
    """
    import apprise
    from airflow.providers.apprise.hooks.apprise import AppriseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    fix = 'set its type to Apprise and its extra field to {"config": {"path": "<Apprise URL>"}}'
    services = apprise.Apprise()
    hook = AppriseHook(conn_id)
    try:
        connection = hook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise AlertError(f"connection {conn_id!r} can't be used ({error!r}); {fix}") from error
    redaction = Redaction(connection)
    try:
        with redaction.of_logs():
            hook.set_config_from_conn(connection, services)
    except Exception as error:
        # KeyError, TypeError and more for a bad one, whose text may quote it.
        shown = redaction.hide(repr(error))
        raise AlertError(f"connection {conn_id!r} can't be used ({shown}); {fix}") from None
    if not len(services):
        raise AlertError(f"connection {conn_id!r} names no service that Apprise supports; {fix}")
    return services, redaction


def check_channels(settings: AlertSettings) -> None:
    """Check that all connections in the settings can be used, without sending anything.

    Raises:
        AlertError: a connection can't be used.
    """
    for conn_id in settings.apprise_conn_ids:
        apprise_services(conn_id)
