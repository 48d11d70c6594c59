"""A healthy account, in which every test changes one thing."""

import pytest

from batchmark.checks.diagnosis.diagnose import diagnose
from tests.stand_ins.diagnosis_answers import NOW, QUEUE, Aws


@pytest.fixture(scope="session")
def clients():
    made = Aws()
    yield made
    made.close()


@pytest.fixture
def aws(clients):
    clients.reset()
    return clients


@pytest.fixture
def find(aws):
    """Return a function that diagnoses the queue with some answers changed."""

    def run(changed=None, **arguments):
        aws.answers.update(changed or {})
        diagnosis = diagnose(aws.client, queue=QUEUE, now=NOW, **arguments)
        assert diagnosis.unread == ()
        return diagnosis

    return run
