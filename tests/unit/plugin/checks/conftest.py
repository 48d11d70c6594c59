import pytest

from tests.builders.leaks import REGION
from tests.stand_ins.stubbed_clients import StubbedClients


@pytest.fixture
def clients():
    stubbed = StubbedClients(REGION)
    yield stubbed
    stubbed.assert_all_was_asked()
