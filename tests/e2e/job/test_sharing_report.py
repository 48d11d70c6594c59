"""What the suite `sharing` leaves is what the report's curves are made of."""

from batchmark.report.sharing.charts import sharing_charts
from batchmark_job.result.document import parse_document
from tests.builders.reports import report_of
from tests.builders.runs import build_run
from tests.builders.sharing import sharing_job
from tests.documented import arguments, the_command
from tests.e2e.job.conftest import ended


def test_the_documented_command_leaves_curves_that_the_report_reads(start_job, tmp_path):
    given = arguments(the_command(".venv/bin/batchmark-job run --suite sharing"))
    _run, *options = [*given, "--disturbances", "crash", "--max-seconds", "0.2", "--device", "cpu"]
    path = tmp_path / "result.json"
    ended(start_job(*options, "--no-ceilings", "--output", str(path)))
    document = parse_document(path.read_bytes())
    job = sharing_job("c5.2xlarge", []).model_copy(update={"document": document})
    (task,) = report_of(build_run(job)).studies["sharing"]
    assert (task.workload, task.parameters) == ("cnn_training_step", {"batch": 32})
    numbers = {
        curve.mode: {one.replicas for one in (*curve.points, *curve.unmeasured)}
        for curve in task.curves
    }
    assert numbers == {"exclusive": {1, 2}, "time_slicing": {1, 2}}
    # Other tests may load the machine so much that a row does not settle, and if none does, not
    # even the crash's, the threads are not known.
    settled = [point for curve in task.curves for point in curve.points]
    assert task.threads == 1 or (task.threads is None and not settled)
    for curve in task.curves:
        assert all(one.reason.startswith("unsettled") for one in curve.unmeasured)
        for point in curve.points:
            assert point.throughput.value > 0
            assert point.figures.slowest.p95 >= point.figures.slowest.p50
            assert 0 < point.figures.fairness_worst <= 1
    (crash,) = task.experiments
    assert crash.first.outcome == "crashed"
    assert crash.ended == ()
    assert len(sharing_charts(task)) in (0, 2)
