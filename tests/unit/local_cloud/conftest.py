"""An empty Batch of the local cloud."""

import pytest

from tests.stand_ins.local_batch import local_batch


@pytest.fixture
def batch():
    with local_batch() as made:
        yield made
