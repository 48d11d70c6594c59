import logging

import pytest

from tests.stand_ins.alert_account import alerts, bucket, context, published, set_up, store

__all__ = ["alerts", "bucket", "context", "published", "set_up", "store"]


class Printing(logging.Handler):
    """Prints what tasks tell, so that pytest's capsys has it."""

    def emit(self, record):
        print(record.getMessage())


@pytest.fixture(autouse=True)
def what_tasks_tell_is_printed():
    log, handler = logging.getLogger("batchmark.task"), Printing()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield
    log.removeHandler(handler)
    log.setLevel(before)
