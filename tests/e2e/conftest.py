"""One real stack for the tests that run DAGs: local cloud, Terraform, Airflow."""

from __future__ import annotations

from contextlib import closing

import pytest

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from tests.e2e.stacks import open_stack, run_dag

# A stack takes 100 seconds to start: with pytest-xdist, whoever uses it goes to the same worker.
ON_ONE_STACK = tuple(
    f"tests/e2e/test_{name}.py"
    for name in (
        *("main_job", "budget", "diagnose_queue", "guard", "regressions"),
        *("least_privilege", "killed_runs"),
    )
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneStack(LoadFileScheduling):
        def _split_scope(self, nodeid):
            scope = super()._split_scope(nodeid)
            return ON_ONE_STACK[0] if scope in ON_ONE_STACK else scope

    return OneStack(config, log)


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    with open_stack(tmp_path_factory.mktemp("stack")) as running:
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


@pytest.fixture(scope="session")
def calibration(airflow):
    """The run id of a noise calibration that ended well."""
    run_id, state = run_dag(airflow, "noise_calibration", {"suite": "own", "repeats": 2})
    assert state == "success"
    return run_id
