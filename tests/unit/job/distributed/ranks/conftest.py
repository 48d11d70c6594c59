"""A rank's place among others."""

import pytest


@pytest.fixture
def place(monkeypatch):
    """Set this process' place as torchrun does; alone unless told otherwise."""

    def put(rank=0, size=1, local_rank=0):
        for name, value in (("RANK", rank), ("WORLD_SIZE", size), ("LOCAL_RANK", local_rank)):
            monkeypatch.setenv(name, str(value))

    return put
