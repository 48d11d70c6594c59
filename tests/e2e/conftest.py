"""One real stack for the tests that run DAGs: local cloud, Terraform, Airflow."""

from __future__ import annotations

import pytest

from laptop.processes import free_port
from laptop.session import Clock
from laptop.stack import Ports, Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    running = Stack(folder, Ports(airflow=free_port(), cloud=free_port()), Clock().say)
    with running:
        running.start()
        yield running
