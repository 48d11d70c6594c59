"""One real stack for the tests that run DAGs: local cloud, Terraform, Airflow."""

import os
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from laptop.demo import run_benchmark
from laptop.session import Clock
from tests.applied import applied_once, lasting_stack, start_all_from
from tests.e2e.stacks import run_dag

HERE = Path(__file__).parent
VIEWER = "vera"
# With pytest-xdist, whoever uses the one stack goes to the same worker, the first.
ON_ONE_STACK = tuple(
    f"tests/e2e/test_{name}.py"
    for name in (
        *("main_job", "budget", "diagnose_queue", "guard", "regressions"),
        *("documented_commands", "least_privilege", "killed_runs", "airflow_pages"),
    )
)
# No other chain of tests takes as long: the other workers give way to it.
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
    os.nice(19)


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
    """Its jobs measure for a moment only, and what Airflow tries again it tries at once."""
    folder = tmp_path_factory.mktemp("stack")
    with lasting_stack(folder, job_dir=HERE / "quick_job") as running:
        env = running.processes.env
        env["PYTHONPATH"] = f"{HERE / 'airflow_settings'}:{env['PYTHONPATH']}"
        env["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] += f",{VIEWER}:viewer"
        start_all_from(partial(applied_once, tmp_path_factory), running)
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
def report(stack):
    """Of a run of the main job."""
    return run_benchmark(stack, {"suite": "smoke"}, Clock())


@pytest.fixture(scope="session")
def calibration(airflow):
    """The run id of a noise calibration that ended well."""
    run_id, state = run_dag(airflow, "noise_calibration", {"suite": "own", "repeats": 2})
    assert state == "success"
    return run_id
