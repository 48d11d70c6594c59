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
def ask(aws):
    """Return a function that diagnoses the queue with some answers changed."""

    def run(changed=None, **arguments):
        aws.answers.update(changed or {})
        return diagnose(aws.client, queue=QUEUE, now=NOW, **arguments)

    return run


@pytest.fixture
def find(ask):
    """As `ask`, where AWS answers all questions."""

    def run(changed=None, **arguments):
        diagnosis = ask(changed, **arguments)
        assert diagnosis.unread == ()
        return diagnosis

    return run
