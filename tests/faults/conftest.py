"""One stack for all faults, and the table at the end."""

from __future__ import annotations

import io
import shutil
from contextlib import closing

import pytest
from rich.console import Console
from rich.table import Table

from laptop.aws import AwsClients
from laptop.stack import ROOT
from tests.applied import lasting_stack, start_all_from_applied
from tests.faults import layer, targets
from tests.faults.bench import Bench
from tests.faults.matrix import HERE, inflict_all
from tests.faults.outcome import DAGS, OWN_DAGS
from tests.user_client import UserClient

COLUMNS = ("fault", "at", "expected", "seen", "seconds", "leaked/lost/twice", "")
WIDTH = 180
# One vCPU for each job there may be: none waits for another.
POOL_VCPUS = 64
# Airflow's own limits, so short that a test sees what comes after them.
AIRFLOW = {
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
}


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    instructions = tmp_path_factory.mktemp("instructions")
    stack = lasting_stack(folder, dags=dags_in(folder / "dags"), vcpus=POOL_VCPUS)
    stack.processes.env.update(AIRFLOW)
    # The DAGs have use for the tests' builders.
    paths = (HERE / "airflow_settings", stack.processes.env["PYTHONPATH"], ROOT)
    stack.processes.env["PYTHONPATH"] = ":".join(map(str, paths))
    with stack:
        start_all_from_applied(stack)
        with closing(AwsClients(stack.aws)) as aws, UserClient(stack.airflow) as airflow:
            layer.publish(aws, targets.publish(aws, instructions), instructions)
            for dag_id in DAGS:
                airflow.wait_for_dag(dag_id)
                airflow.unpause(dag_id)
            with closing(Bench(stack, airflow, aws, instructions)) as bench:
                yield bench


def dags_in(folder):
    """The matrix's own chains, and the product's DAGs that are under test as they are."""
    shutil.copytree(HERE / "dags", folder)
    for name in OWN_DAGS:
        shutil.copy(ROOT / "dags" / f"{name}.py", folder)
    return folder


@pytest.fixture(scope="session")
def results(request, bench):
    """What came of every fault that this session asks for, by fault and point."""
    items = [item for item in request.session.items if item.path.parent == HERE]
    asked = [item.callspec.params["fault"] for item in items if "results" in item.fixturenames]
    return inflict_all(bench, list({fault.name: fault for fault in asked}.values()))


def pytest_terminal_summary(terminalreporter):
    """Print what the reports brought from whatever process ran the tests."""
    faults = Table(*COLUMNS)
    for line in sorted(recorded(terminalreporter, "case")):
        faults.add_row(*line[1:])
    show(terminalreporter, "faults", faults)
    for mutants in recorded(terminalreporter, "mutants"):
        red = sum(is_red for *_, is_red in mutants)
        table = Table("task", "mutant", f"{red} of {len(mutants)} red ({red / len(mutants):.0%})")
        for task, mutant, is_red in mutants:
            table.add_row(task, mutant, "red" if is_red else "GREEN")
        show(terminalreporter, "mutants", table)


def recorded(terminalreporter, name):
    """What tests recorded by this name, passed or failed."""
    return [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for recorded_name, value in report.user_properties
        if recorded_name == name
    ]


def show(terminalreporter, title, table):
    if not table.row_count:
        return
    text = io.StringIO()
    Console(file=text, width=WIDTH).print(table)
    terminalreporter.section(title)
    terminalreporter.write(text.getvalue())
