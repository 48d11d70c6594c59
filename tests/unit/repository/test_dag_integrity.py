"""What must hold for every file in dags/ before it is merged. No database is needed."""

import itertools
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import TimeRestriction

from batchmark.core.kinds import KINDS, SUBMITTING
from batchmark.core.prices import load_prices
from batchmark.core.suites import TASKS
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.report.changes.alert_message import DAG_ID as CHANGE_ALERT
from batchmark.runs.budget import refusals, worst_case
from batchmark.runs.plans.planning import plan_jobs
from batchmark.runs.plans.sharing_plan import plan_sharing, sharing_options
from tests.builders.installations import configured, target
from tests.faults.dags.broken import BROKEN, WITHOUT_MUTANT
from tests.paths import DOCS, ROOT

FILES = sorted((ROOT / "dags").glob("*.py"))
BENCHMARKS = (
    "gpu_cpu_benchmark",
    "gpu_sharing_benchmark",
    "own_job_benchmark",
    "job_comparison",
)


WHEN_ASKED = (
    *("gpu_sharing_benchmark", "own_job_benchmark", "job_comparison"),
    *("noise_calibration", CHANGE_ALERT, "environment_check"),
)


def test_every_file_imports_and_has_one_dag_named_after_it(dag_bag):
    assert dag_bag.import_errors == {}
    assert set(dag_bag.dags) == {path.stem for path in FILES}


def test_reading_them_loads_nothing_that_only_analyses_and_charts_need():
    """Airflow reads every file again and again, and each task reads its own."""
    dear = {"altair", "kubernetes", "pyarrow", "scipy.optimize", "scipy.special", "scipy.stats"}
    names = [f"dags.{path.stem}" for path in FILES if not path.stem.startswith("eks_")]
    program = f"import sys, {', '.join(names)}\nprint({dear} & set(sys.modules))"
    read = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/plugins:{ROOT}/job_container"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dag_states_what_a_user_needs_in_a_thin_file(dag_bag, path):
    assert len(path.read_text().splitlines()) <= 100
    dag = dag_bag.dags[path.stem]
    assert dag.doc_md, "doc_md is what the UI shows on top"
    assert "batchmark" in dag.tags
    assert dag.catchup is False
    assert dag.max_active_runs == 1
    for name in dag.params:
        param = dag.params.get_param(name)
        assert param.description, f"param {name} has no description"
        param.resolve()


def assert_order(dag, *lines):
    """Each task of a line is followed by the next one."""
    for line in lines:
        for before, after in itertools.pairwise(line):
            assert after in dag.get_task(before).downstream_task_ids


@pytest.mark.parametrize("dag_id", BENCHMARKS)
def test_a_benchmark_measures_compares_watches_and_publishes_in_order(dag_bag, dag_id):
    dag = dag_bag.dags[dag_id]
    lines = (
        ("check_environment", "plan_jobs", "run_benchmark", "collect_results", "compare"),
        ("collect_results", "find_suspects", "rerun_once", "find_agreeing", "rerun_twice"),
        ("rerun_twice", "detect_regressions", "open_alerts", "publish_report", "publish_alerts"),
        ("compare", "publish_report"),
        ("find_suspects", "find_agreeing", "detect_regressions"),
        ("find_suspects", "detect_regressions"),
        ("open_alerts", "announce_regressions"),
        ("plan_jobs", "announce_regressions"),  # else a run without a plan would succeed
    )
    assert_order(dag, *lines)
    assert set(dag.task_ids) == set(itertools.chain(*lines))
    assert {task.task_id for task in dag.leaves} == {"publish_alerts", "announce_regressions"}
    root = dag.task_group
    assert list(root.children) == ["measure", "compare", "watch", "publish"]
    groups = {name: group for name, group in root.children.items() if name != "compare"}
    for name, group in groups.items():
        assert (group.label, bool(group.tooltip)) == (name.capitalize(), True)
    assert {name: set(group.children) for name, group in groups.items()} == {
        "measure": {"check_environment", "plan_jobs", "run_benchmark", "collect_results"},
        "watch": {
            *("find_suspects", "rerun_once", "find_agreeing", "rerun_twice"),
            *("detect_regressions", "open_alerts"),
        },
        "publish": {"publish_report", "publish_alerts", "announce_regressions"},
    }


def test_people_read_names_which_the_docs_list_with_the_fields_of_the_form(dag_bag):
    text = (DOCS / "dags.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| `(\w+)` \|[^|]+\|([^|]*)\|$", text, re.MULTILINE)
    listed = {dag_id: (name, re.findall(r"`(\w+)`", fields)) for name, dag_id, fields in rows}
    dags = dag_bag.dags.items()
    assert listed == {dag_id: (dag.dag_display_name, list(dag.params)) for dag_id, dag in dags}
    names = {dag_id: dag.dag_display_name for dag_id, dag in dags}
    assert names == {dag_id: kind.title for dag_id, kind in KINDS.items()}
    for dag_id, dag in dags:
        assert re.sub(r"\W", "_", dag.dag_display_name).lower() == dag_id
        assert dag.description
        assert not any(getattr(task, "show_return_value_in_logs", False) for task in dag.tasks)
        submits = any(task.task_type == BenchmarkJobOperator.__name__ for task in dag.tasks)
        assert submits is (dag_id in SUBMITTING), "the guard knows every DAG that submits jobs"


def test_each_task_of_the_benchmark_has_a_mutant_or_a_reason_for_none(dag_bag):
    mutated = {task for tasks in BROKEN.values() for task in tasks}
    assert mutated.isdisjoint(WITHOUT_MUTANT)
    assert set(dag_bag.dags["gpu_cpu_benchmark"].task_ids) == mutated | WITHOUT_MUTANT.keys()


@pytest.mark.parametrize("dag_id", [*BENCHMARKS, "eks_gpu_sharing_benchmark"])
def test_what_a_failed_job_must_not_stop_runs_all_the_same(dag_bag, dag_id):
    dag = dag_bag.dags[dag_id]
    going_on = {"collect_results", "detect_regressions", "publish_report", "publish_alerts"}
    going_on |= {"find_agreeing"} & set(dag.task_ids)  # the node of pods has ended by then
    assert {task.task_id for task in dag.tasks if task.trigger_rule == "all_done"} == going_on


@pytest.mark.parametrize(
    ("dag_id", "tasks"),
    [
        (
            "noise_calibration",
            ["check_environment", "plan_jobs", "run_benchmark", "collect_results", "publish_noise"],
        ),
        ("leak_guard", ["look_for_leaks", "report_leaks"]),
        ("detector_self_test", ["try_detector", "publish_self_test"]),
        ("send_alerts", ["send_pending"]),
        ("own_job_schedule", ["find_due", "start_run"]),
        (CHANGE_ALERT, ["change_alert"]),
        ("environment_check", ["check_environment"]),
    ],
)
def test_other_dags_run_in_order(dag_bag, dag_id, tasks):
    dag = dag_bag.dags[dag_id]
    assert [task.task_id for task in dag.topological_sort()] == tasks
    assert_order(dag, tasks)


@pytest.mark.parametrize(
    ("dag_id", "unpaused", "first"),
    [
        ("leak_guard", (19, 12, 5), (19, 12, 20)),
        ("leak_guard", (19, 13, 5), (19, 13, 20)),
        ("send_alerts", (19, 12, 5), (19, 12, 40)),
        ("detector_self_test", (19, 12), (22, 5)),
        ("own_job_schedule", (19, 12, 11), (19, 12, 15)),
        # A run costs money; with a start date Airflow would make up for the Monday before.
        ("gpu_cpu_benchmark", (19, 12), (23, 3)),
        *((dag_id, (19, 12), None) for dag_id in WHEN_ASKED),
    ],
)
def test_the_first_run_after_unpausing_on_a_thursday(dag_bag, monkeypatch, dag_id, unpaused, first):
    now = datetime(2026, 11, *unpaused, tzinfo=UTC)
    monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda: now)
    dag = dag_bag.dags[dag_id]
    timetable = decode_timetable(encode_timetable(dag.timetable))  # as the scheduler has it
    restriction = TimeRestriction(dag.start_date, None, catchup=dag.catchup)
    found = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert (found and found.run_after) == (first and datetime(2026, 11, *first, tzinfo=UTC))
    assert timetable.can_be_scheduled is (first is not None)


@pytest.mark.parametrize(
    ("dag_id", "param", "value", "message"),
    [
        ("gpu_cpu_benchmark", "suite", "smokey", "'smokey' is not one of"),
        ("gpu_cpu_benchmark", "repeats", 0, "0 is less than the minimum of 1"),
        ("gpu_cpu_benchmark", "repeats", "NaN", "'NaN' is not of type 'integer'"),
        ("gpu_cpu_benchmark", "dtype", "float8", "'float8' is not one of"),
        ("gpu_cpu_benchmark", "max_cost_usd", 0, "0 is less than or equal to the minimum of 0"),
        ("gpu_cpu_benchmark", "max_cost_usd", "NaN", "'NaN' is not of type 'number', 'null'"),
        ("gpu_cpu_benchmark", "dry_run", "yes", "'yes' is not of type 'boolean'"),
        ("noise_calibration", "repeats", 1, "less than the minimum of 2"),
        (CHANGE_ALERT, "state", "recovered", "'recovered' is not one of"),
        ("gpu_sharing_benchmark", "modes", ["mig"], "'mig' is not one of"),
        ("gpu_sharing_benchmark", "disturbances", ["flood"], "'flood' is not one of"),
        ("gpu_sharing_benchmark", "replicas", [101], "101 is greater than the maximum of 100"),
        ("gpu_sharing_benchmark", "replicas", [], "should be non-empty"),
        ("gpu_sharing_benchmark", "task", "", "should be non-empty"),
    ],
)
def test_the_form_refuses_what_the_dag_can_not_do(dag_bag, dag_id, param, value, message):
    with pytest.raises(ParamValidationError, match=message):
        dag_bag.dags[dag_id].params.get_param(param).resolve(value)


def test_what_is_due_is_started_by_airflows_own_operator_and_never_twice(dag_bag):
    start = dag_bag.dags["own_job_schedule"].get_task("start_run").partial_kwargs
    assert start["trigger_dag_id"] in dag_bag.dags
    assert start["skip_when_already_exists"]
    assert start["fail_when_dag_is_paused"]


# What Terraform makes by default: three attempts of an hour, on Spot and then On-Demand.
DEFAULT_TARGETS = {
    **dict.fromkeys(["g4dn.xlarge", "g5.xlarge", "g6.xlarge"], "cuda"),
    **dict.fromkeys(["c5.2xlarge", "c5n.2xlarge", "m5.2xlarge"], "cpu"),
}


def worst(targets, repeats, **prices):
    made = {name: target(device, instance_type=name) for name, device in targets.items()}
    config = configured(targets=made)
    jobs = plan_jobs(
        config, run_name="run", suite="smoke", repeats=repeats, need_both_devices=False
    )
    known = load_prices()
    known = known.model_copy(update={"on_demand": known.on_demand | prices})
    return worst_case(config, jobs, known, datetime.now(UTC))


@pytest.mark.parametrize(
    ("dag_id", "usd"),
    [
        ("gpu_cpu_benchmark", 20.98),
        ("gpu_sharing_benchmark", 20.98),
        ("noise_calibration", 125.77),
    ],
)
def test_the_default_cap_lets_the_shipped_targets_through_and_no_g5_48xlarge(dag_bag, dag_id, usd):
    """The figures stand in docs/runbook.md."""
    params = dag_bag.dags[dag_id].params
    repeats, cap = params["repeats"], params["max_cost_usd"]
    shipped = worst(DEFAULT_TARGETS, repeats)
    assert shipped.usd == usd
    assert refusals(shipped, max_cost_usd=cap) == ()
    price = {"g5.48xlarge": 16.288}  # AWS's list price in us-east-1, early 2026
    (reason,) = refusals(worst({"g5.48xlarge": "cuda"}, repeats, **price), max_cost_usd=cap)
    assert "above its max_cost_usd" in reason


@pytest.mark.parametrize("dag_id", [*BENCHMARKS, "noise_calibration"])
def test_the_form_takes_no_cap_or_one_above_zero(dag_bag, dag_id):
    param = dag_bag.dags[dag_id].params.get_param("max_cost_usd")
    assert param.resolve(None) is None
    assert param.resolve(0.5) == 0.5
    for bad in (0, -1, "fifty"):
        with pytest.raises(ParamValidationError):
            param.resolve(bad)


def test_the_form_of_sharing_offers_what_can_be_planned(dag_bag):
    params = dag_bag.dags["gpu_sharing_benchmark"].params
    names = ("task", "axes", "modes", "replicas", "disturbances")
    fields = {name: params.get_param(name) for name in names}
    assert {field.schema["section"] for field in fields.values()} == {"The task", "How it shares"}
    values = {name: field.resolve() for name, field in fields.items()}
    plan_sharing(configured(), sharing_options(values), run_name="run")
    for name in ("modes", "disturbances"):
        every = fields[name].schema["examples"]
        assert fields[name].schema["values_display"].keys() == set(every)
        sharing_options(values | {name: fields[name].resolve(every)})
    for task in fields["task"].schema["examples"]:
        assert task in TASKS


def test_the_benchmarks_dags_import_too():
    bag = DagBag(ROOT / "benchmarks" / "orchestration" / "dags")
    assert bag.import_errors == {}
    assert set(bag.dags) == {"short_jobs_batchmark", "short_jobs_provider_deferrable"}
