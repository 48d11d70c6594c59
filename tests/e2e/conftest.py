"""One real stack for the tests that run DAGs: local cloud, Terraform, Airflow."""

from __future__ import annotations

from contextlib import closing

import pytest

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
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


@pytest.fixture(scope="session")
def aws(stack):
    with closing(AwsClients(stack)) as clients:
        yield clients


@pytest.fixture(scope="session")
def airflow(stack):
    with AirflowClient(stack.airflow) as client:
        yield client
