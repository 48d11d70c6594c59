"""The setup and the teardown of a run's file system, on a worker."""

import time
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferralTimeout,
    TaskDeferred,
)

from batchmark.aws.result_bucket import PLAN, RunStore
from batchmark.core.clusters.multi_node import COLLAPSE_SECONDS, STAND_UP_SECONDS
from batchmark.core.errors import ConfigError
from batchmark.core.run import RunPlan
from batchmark.orchestration.operators import file_system_operators
from batchmark.orchestration.operators.file_system_operators import (
    CollapseFileSystem,
    StandUpFileSystem,
)
from batchmark.orchestration.operators.file_system_trigger import CollapseTrigger, StandUpTrigger
from batchmark.runs.run_file_system import RunFileSystem
from tests.builders.installations import configured
from tests.builders.scaling import RUN, RUN_ID, planned, stack
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.file_systems import FakeFsx, FakeSsm

NODES = stack()


class Account:
    def __init__(self):
        self.fsx, self.ssm = FakeFsx(), FakeSsm(NODES.file_system.id_parameter)
        self.store = RunStore(MemoryBucket("results", "us-east-1"), "results", RUN_ID)
        self.states = {"run_benchmark": None}  # of the run's job tasks

    def plan(self, *, files=True, dry_run=False):
        plan = RunPlan(
            jobs=planned(NODES),
            file_system=NODES.file_system if files else None,
            compute_environment="planned" if files else None,
            dry_run=dry_run,
        )
        self.store.write(PLAN, plan.model_dump_json())

    def context(self, operator, cleared=0):
        ti = SimpleNamespace(
            dag_id=RUN.dag_id,
            run_id=RUN_ID,
            max_tries=operator.retries + cleared,
            get_task_states=self.task_states,
        )
        return {"run_id": RUN_ID, "ti": ti, "task": operator}

    def task_states(self, *, dag_id, task_ids, run_ids):
        assert (dag_id, run_ids) == (RUN.dag_id, [RUN_ID])
        assert task_ids == ["run_benchmark", "rerun_once", "rerun_twice"]
        return {RUN_ID: self.states}

    @property
    def named(self):
        return self.ssm.values[NODES.file_system.id_parameter]


@pytest.fixture
def account(monkeypatch):
    found = Account()
    clients = {"fsx": found.fsx, "ssm": found.ssm}
    monkeypatch.setattr(file_system_operators, "load_config", configured)
    monkeypatch.setattr(file_system_operators, "load_multi_node", lambda: NODES)
    monkeypatch.setattr(file_system_operators, "client", lambda service, region: clients[service])
    monkeypatch.setattr(RunStore, "of", lambda config, run_id: found.store)
    return found


def executed(account, operator=StandUpFileSystem, **context):
    made = operator(task_id="any")
    return made.execute(account.context(made, **context))


def deferral(account, operator=StandUpFileSystem, **context):
    with pytest.raises(TaskDeferred) as raised:
        executed(account, operator, **context)
    return raised.value


def test_the_trigger_stands_up_what_the_plan_asks_for(account):
    account.plan()
    deferred = deferral(account, cleared=2)
    assert isinstance(deferred.trigger, StandUpTrigger)
    _, arguments = deferred.trigger.serialize()
    assert arguments["settings"] == NODES.file_system.model_dump(mode="json")
    assert arguments["run"] == RUN.model_dump() | {"generation": 2}
    left = arguments["deadline"] - time.time()
    assert left == pytest.approx(STAND_UP_SECONDS, abs=60)
    assert deferred.timeout.total_seconds() > STAND_UP_SECONDS + COLLAPSE_SECONDS
    assert arguments["environment"] == "planned"
    assert account.fsx.requests == [], "the worker makes nothing"


def test_without_files_or_in_a_dry_run_nothing_is_stood_up(account, capsys):
    account.plan(files=False)
    account.ssm.values[NODES.file_system.id_parameter] = "fs-of-an-earlier-run"
    assert executed(account) is None
    assert account.named == "none"
    assert "no file system is created" in capsys.readouterr().out
    account.plan(dry_run=True)
    with pytest.raises(AirflowSkipException, match="no file system is created"):
        executed(account)
    assert account.ssm.history == ["none"], "as of before"


@pytest.mark.parametrize(
    ("states", "stands"),
    [
        ({"run_benchmark_0": "success", "run_benchmark_1": "failed", "rerun_once": None}, True),
        ({"run_benchmark_0": "running", "rerun_once": "skipped"}, True),
        ({"run_benchmark_0": "success", "rerun_once_0": "failed", "rerun_twice": "skipped"}, False),
    ],
)
def test_a_task_that_is_cleared_after_the_jobs_stands_nothing_up(account, capsys, states, stands):
    account.plan()
    account.states = states
    if stands:
        deferral(account)
    else:
        assert executed(account) is None
        assert "None of the run's jobs will run" in capsys.readouterr().out


def collapse(account):
    deferred = deferral(account, CollapseFileSystem)
    assert isinstance(deferred.trigger, CollapseTrigger)
    return deferred.trigger.serialize()[1]


@pytest.mark.parametrize("planned_before", [True, False])
def test_the_teardown_needs_neither_plan_nor_stack(account, monkeypatch, planned_before):
    arguments = collapse(account)
    assert arguments["deadline"] - time.time() == pytest.approx(COLLAPSE_SECONDS, abs=60)
    assert (arguments["bucket"], arguments["run"]["run_id"]) == ("results", RUN_ID)
    assert arguments["environment"] == NODES.compute_environment
    destroyed = failing(ConfigError("Airflow variable batchmark_multi_node is missing"))
    monkeypatch.setattr(file_system_operators, "load_multi_node", destroyed)
    if planned_before:
        account.plan()
    arguments = collapse(account)
    known = NODES.file_system.model_dump(mode="json"), "planned"
    seen = arguments["settings"], arguments["environment"]
    assert seen == (known if planned_before else (None, None))


@pytest.mark.parametrize("error", [TaskDeferralTimeout, TaskDeferralError])
def test_what_a_trigger_left_that_could_not_end_the_task_is_deleted(account, monkeypatch, error):
    account.plan()
    RunFileSystem(account.fsx, account.ssm, NODES.file_system, RUN).stand_up()
    operator = StandUpFileSystem(task_id="any")
    fails = failing(error("nobody came"))
    monkeypatch.setattr(file_system_operators.BaseOperator, "resume_execution", fails)
    with pytest.raises(AirflowFailException, match=r"No triggerer ended this task \(nobody came\)"):
        operator.resume_execution("execute_complete", None, account.context(operator))
    assert len(account.fsx.deleted) == 1
    # In a test of the DAG, a task fails as its trigger did.
    with pytest.raises(AirflowFailException):
        operator.execute_complete(account.context(operator), event="failed")
    operator.execute_complete(account.context(operator), event="success")
