"""A healthy world, of which every test changes one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from batchmark.diagnosis import diagnose
from tests.unit.diagnosis.answers import NOW, QUEUE, Aws

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from batchmark.diagnosis import Diagnosis


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
    """Diagnose the queue with some answers changed; every question has to be answered."""

    def run(changed: dict[str, Any] | None = None, **arguments: Any) -> Diagnosis:
        aws.answers.update(changed or {})
        diagnosis = diagnose(aws.client, queue=QUEUE, now=NOW, **arguments)
        assert diagnosis.unread == ()
        return diagnosis

    return run
