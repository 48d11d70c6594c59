"""A healthy account, in which every test changes one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from batchmark.checks.diagnosis.diagnose import diagnose
from batchmark.checks.diagnosis.records import Diagnosis
from tests.stand_ins.diagnosis_answers import NOW, QUEUE, Aws


@pytest.fixture(scope="session")
def clients() -> Iterator[Aws]:
    made = Aws()
    yield made
    made.close()


@pytest.fixture
def aws(clients: Aws) -> Aws:
    clients.reset()
    return clients


@pytest.fixture
def find(aws: Aws) -> Callable[..., Diagnosis]:
    """Return a function that diagnoses the queue with some answers changed."""

    def run(changed: dict[str, Any] | None = None, **arguments: Any) -> Diagnosis:
        aws.answers.update(changed or {})
        diagnosis = diagnose(aws.client, queue=QUEUE, now=NOW, **arguments)
        assert diagnosis.unread == ()
        return diagnosis

    return run
