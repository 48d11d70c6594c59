"""What must hold for every file in dags/ before it is merged. No database is needed."""

import itertools
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import TimeRestriction

DAGS = Path(__file__).resolve().parents[2] / "dags"
FILES = sorted(DAGS.glob("*.py"))


@pytest.fixture(scope="module")
def dag_bag():
    return DagBag(DAGS)


def test_every_file_imports(dag_bag):
    assert dag_bag.import_errors == {}


def test_one_dag_per_file_named_after_it(dag_bag):
    assert set(dag_bag.dags) == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dag_states_what_a_user_needs(dag_bag, path):
    dag = dag_bag.dags[path.stem]
    assert dag.doc_md, "doc_md is what the UI shows on top"
    assert "batchmark" in dag.tags
    assert dag.catchup is False
    assert dag.max_active_runs == 1
    for name in dag.params:
        param = dag.params.get_param(name)
        assert param.description, f"param {name} has no description"
        param.resolve()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dag_file_is_thin(path):
    assert len(path.read_text().splitlines()) <= 100


def test_benchmark_runs_in_order(dag_bag):
    dag = dag_bag.dags["gpu_cpu_benchmark"]
    order = ["plan_jobs", "run_benchmark", "collect_results", "compare", "publish_report"]
    sorted_ids = [task.task_id for task in dag.topological_sort()]
    assert [task_id for task_id in sorted_ids if task_id != "fetch_prices"] == order
    for before, after in itertools.pairwise(order):
        assert after in dag.get_task(before).downstream_task_ids


def test_prices_are_fetched_beside_the_jobs_and_nothing_hangs_on_them(dag_bag):
    dag = dag_bag.dags["gpu_cpu_benchmark"]
    prices = dag.get_task("fetch_prices")
    assert prices.upstream_task_ids == {"plan_jobs"}
    assert prices.downstream_task_ids == {"collect_results"}
    assert dag.get_task("collect_results").trigger_rule == "all_done"


def test_calibration_runs_in_order_and_only_when_asked(dag_bag):
    dag = dag_bag.dags["noise_calibration"]
    order = ["plan_jobs", "run_benchmark", "collect_results", "publish_noise"]
    assert [task.task_id for task in dag.topological_sort()] == order
    for before, after in itertools.pairwise(order):
        assert after in dag.get_task(before).downstream_task_ids
    assert dag.timetable.can_be_scheduled is False
    with pytest.raises(ParamValidationError, match="less than the minimum of 2"):
        dag.params.get_param("repeats").resolve(1)


def test_unpausing_on_a_thursday_waits_for_monday(dag_bag, monkeypatch):
    """A run costs money; with a start date Airflow would make up for the Monday before."""
    dag = dag_bag.dags["gpu_cpu_benchmark"]
    thursday = datetime(2026, 11, 19, 12, tzinfo=UTC)
    monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda: thursday)
    timetable = decode_timetable(encode_timetable(dag.timetable))  # as the scheduler has it
    first = timetable.next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(dag.start_date, None, catchup=dag.catchup),
    )
    assert first.run_after == datetime(2026, 11, 23, 3, tzinfo=UTC)


def test_the_benchmarks_dags_import_too():
    bag = DagBag(DAGS.parent / "benchmarks" / "dags")
    assert bag.import_errors == {}
    operators = ("batchmark", "provider_deferrable", "provider_sync", "provider_sync_eager")
    assert set(bag.dags) == {f"short_jobs_{name}" for name in operators}
