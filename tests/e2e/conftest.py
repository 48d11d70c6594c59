"""One real stack for the tests that run DAGs: local cloud, Terraform, Airflow."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from laptop.aws import AwsClients
from laptop.demo import run_benchmark
from laptop.session import Clock
from laptop.stack import apply_core_stack
from tests.applied import lasting_stack, start_all_from_applied
from tests.e2e.own_job_runs import CASES, OWN, SWEEP, own_jobs
from tests.e2e.stacks import JOB_DIR, VCPUS, at_once, run_all
from tests.user_client import UserClient

VIEWER = "vera"
# With pytest-xdist, whoever uses the one stack goes to the same worker, the first.
ON_ONE_STACK = tuple(
    f"tests/e2e/test_{name}.py"
    for name in (
        *("main_job", "budget", "guard", "own_jobs"),
        *("regressions", "documented_commands", "least_privilege", "killed_runs"),
        *("airflow_pages", "made_up_kind"),
    )
)
# No other chain of tests takes as long: the other workers give way to it, and get a third of its
# time. At 19 they got a hundredth beside `make test`, and what they waited for came too late.
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
    os.nice(5)

# Runs that tests read, by the fixture that waits for them: begun together, awaited together.
SHARED_RUNS = {
    "calibration": {"calibration": ("noise_calibration", {"suite": "own", "repeats": 2})},
    "own_runs": {"cases": (OWN, CASES), "sweep": (OWN, SWEEP)},
}


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
    folder, jobs = tmp_path_factory.mktemp("stack"), own_jobs()
    with at_once(lasting_stack(folder, job_dir=JOB_DIR, vcpus=VCPUS, own_jobs=jobs)) as running:
        running.processes.env["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] += f",{VIEWER}:viewer"
        start_all_from_applied(running)
        yield running


@pytest.fixture(scope="session")
def aws(stack):
    with closing(AwsClients(stack.aws)) as clients:
        yield clients


@pytest.fixture(scope="session")
def airflow(stack):
    with UserClient(stack.airflow) as client:
        yield client


@pytest.fixture(scope="session")
def runs(request, stack, airflow):
    """What came of the shared runs that this session's tests read, and of the main job.

    The main job's is its report; of each other the run id and the state.
    """
    read = {name for item in request.session.items for name in item.fixturenames}
    if "own_runs" in read:
        apply_core_stack(stack.terraform, stack.say, own_jobs=own_jobs())
    asked = {}
    for fixture in SHARED_RUNS.keys() & read:
        asked |= SHARED_RUNS[fixture]
    with ThreadPoolExecutor() as beside:
        others = beside.submit(run_all, airflow, asked)
        report = run_benchmark(stack, {"suite": "smoke"}, Clock()) if "report" in read else None
        return {"report": report} | others.result()


@pytest.fixture(scope="session")
def report(runs):
    """Of a run of the main job."""
    return runs["report"]


@pytest.fixture(scope="session")
def calibration(runs):
    """The run id of a noise calibration that ended well."""
    run_id, state = runs["calibration"]
    assert state == "success"
    return run_id


@pytest.fixture(scope="session")
def own_runs(runs):
    """The run ids and states of both runs of own jobs."""
    return {name: runs[name] for name in SHARED_RUNS["own_runs"]}
