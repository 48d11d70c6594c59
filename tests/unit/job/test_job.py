"""run_job in this process: documents, endings, labels."""

import re
import signal
import tempfile
from pathlib import Path
from unittest import mock

import pytest
import torch

from batchmark_job import job
from batchmark_job.errors import InputError, OutputError
from batchmark_job.machine import telemetry
from batchmark_job.machine.inventory import Machine
from batchmark_job.machine.telemetry import Telemetry
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.marks import JobMarks
from batchmark_job.progress import describe, describe_first_turn, warnings
from batchmark_job.recorder import Recorder
from batchmark_job.result.document import (
    Correctness,
    Implementation,
    Measurement,
    MeasurementStatus,
    Stopping,
    Trial,
    parse_document,
)
from batchmark_job.result.values import BY_HAND
from batchmark_job.result.version import GivenVersion
from batchmark_job.suites import Point
from batchmark_job.workloads.builtin import WORKLOADS
from tests.stand_ins.broken_output import BrokenOutput
from tests.stand_ins.workers import run_job_here as run_job


def written(settings):
    return parse_document(Path(str(settings.output)).read_bytes())


def document_of(settings, code=0):
    assert run_job(settings) == code
    return written(settings)


def test_document_says_what_ran(make_settings, capsys):
    points = (Point("matmul", {"size": 16}), Point("matmul", {"size": 17}, "float64"))
    settings = make_settings(points=points, version=GivenVersion(commit="3f2a91c"))
    document = document_of(settings)
    assert document.version == settings.version
    assert (document.run_id, document.job_id, document.job_attempt) == ("a-run", "a-job", 2)
    assert (document.target, document.suite) == ("a-target", "custom")
    assert (document.requested_device, document.actual_device) == ("cpu", "cpu")
    assert document.status == "complete"
    rows = [(row.parameters, row.dtype) for row in document.measurements]
    assert rows == [({"size": 16}, "float32"), ({"size": 17}, "float64")]
    tolerances = [row.correctness and row.correctness.tolerance for row in document.measurements]
    assert tolerances == [1e-5, 1e-12]
    assert document.environment.compute_threads == 1
    assert document.total_seconds > 0
    names = ("imported", "device_ready", "inputs_ready", "first_call", "trial_ended", "steady")
    between = [getattr(document.marks, f"{name}_at") for name in names]
    times = [document.started_at, *between, document.finished_at]
    assert None not in times
    assert times == sorted(times)
    assert document.marks.process_started_at == document.started_at
    assert document.ceilings == ()
    assert {metric.metric for metric in document.telemetry} >= {"MemoryUsed"}
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert "suite custom, 2 rows, float32 float64, on cpu" in lines[0]
    # A busy machine may leave a row unsettled before it has a turn.
    first = r"(\[0/2\] matmul .*: turn 1 of 12: |\[1/2\] matmul .*: UNSETTLED, ).*"
    assert re.fullmatch(first, lines[1])
    assert any(re.match(r"\[1/2\] matmul size=1[67] float(32|64): ", line) for line in lines)
    table = lines.index(f"batchmark-job: wrote {settings.output}") + 2
    assert lines[table].startswith("suite custom on cpu, 1 thread, complete")


EDGES, MATMUL = Point("edge_detection", {"size": 16, "batch": 1}), Point("matmul", {"size": 16})


@pytest.fixture
def explode(monkeypatch):
    """Makes the inputs of a workload an error."""

    def set_up(workload, error):
        monkeypatch.setattr(WORKLOADS[workload], "make_inputs", mock.Mock(side_effect=error))

    return set_up


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((EDGES, MATMUL), "1 of 2 rows failed"),
        ((EDGES,), "nothing could be measured: 1 of 1 row failed"),
    ],
)
def test_failed_row_does_not_stop_the_others(make_settings, explode, capsys, points, said):
    explode("edge_detection", RuntimeError("no inputs today"))
    failed, *others = document_of(make_settings(points=points), code=1).measurements
    assert failed.status == "failed"
    assert failed.reason == "RuntimeError: no inputs today"
    assert {row.status for row in others} <= {"measured", "unsettled"}
    out = capsys.readouterr().out
    assert out.endswith(f"\nbatchmark-job: {said}\n")
    assert ("complete" in out) == bool(others)


@pytest.mark.parametrize(("job_id", "code"), [("a-job", 0), (BY_HAND, 1)])
def test_rows_that_are_all_skipped_are_a_failure_by_hand_alone(make_settings, job_id, code, capsys):
    points = (Point("matmul", {"size": 200_000}, "float64"),)
    (row,) = document_of(make_settings(points=points, job_id=job_id), code=code).measurements
    assert row.status == "skipped"
    assert capsys.readouterr().out.endswith("\nbatchmark-job: nothing could be measured\n")


def test_reader_of_the_log_is_warned():
    fast, slow = (Implementation(name=n, version="1", threads=2) for n in ("fast", "slow"))
    wrong = Trial(implementation=fast, outcome="wrong", reason="it contains nan")
    measurement = Measurement(
        workload="matmul",
        parameters={"size": 16},
        dtype="float32",
        status=MeasurementStatus.MEASURED,
        reason="only 4 samples: 10 would have taken more than 100 s",
        implementation=slow.model_copy(update={"threads": None}),
        cold_seconds=1.5,
        samples_seconds=(1.0, 1.0, 1.0, 3.0),
        correctness=Correctness(relative_error=0.0, tolerance=1e-5),
        stopping=Stopping(criterion="max_seconds", relative_half_width=None),
        trials=(wrong,),
        throttled_samples=(1, 2),
        outlier_samples=(3,),
        multimodal=True,
    )
    assert describe(measurement) == (
        "matmul size=16 float32: median 1 s, middle half 1 s to 1.5 s, 4 samples (time is up), "
        "cold 1.5 s, slow"
    )
    assert list(warnings(measurement)) == [
        "fast on 2 threads was not used (wrong): it contains nan",
        "only 4 samples: 10 would have taken more than 100 s",
        "2 of 4 samples were taken while the device was slowed down; reports leave them out",
        "1 of 4 samples are far from the median; kept",
        "the samples cluster around more than one value",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_another_device_or_fewer_threads_than_asked_for_are_labelled(make_settings, capsys):
    asked = {"requested_device": "cuda", "allow_cpu_fallback": True, "threads": 100_000}
    document = document_of(make_settings(**asked))
    said = capsys.readouterr().out
    assert said.startswith("batchmark-job: NOT A GPU MEASUREMENT: cuda was")
    assert (document.requested_device, document.actual_device) == ("cuda", "cpu")
    assert document.environment.gpu_model is None
    assert "100000 threads requested, but only" in said
    assert document.environment.compute_threads == document.environment.cpu_threads


def test_document_that_can_not_be_written_is_kept_and_metrics_are_published(
    make_settings, tmp_path, monkeypatch, capsys
):
    cloudwatch = mock.Mock()
    monkeypatch.setattr(telemetry, "_cloudwatch", lambda: cloudwatch)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(OutputError, match="no network; the document is above in this log and in"):
        run_job(make_settings(metrics_namespace="Tests", output=BrokenOutput()))
    kept = parse_document((tmp_path / "batchmark-a-job.2.json").read_bytes())
    log = capsys.readouterr().out
    text = log.split("document begins -----\n")[1].split("\n----- result document ends")[0]
    assert parse_document(text) == kept
    assert len(kept.measurements) == 2
    (published,) = cloudwatch.put_metric_data.mock_calls
    names = {datum["MetricName"] for datum in published.kwargs["MetricData"]}
    assert names == {"CPUUtilization", "MemoryUsed"}


def test_error_outside_of_rows_keeps_the_finished_ones(make_settings, monkeypatch, capsys):

    def breaks_at_the_second(row):
        if row.parameters == {"size": 17}:
            raise LookupError("nothing to say")
        return describe_first_turn(row)

    monkeypatch.setattr(job, "describe_first_turn", breaks_at_the_second)
    points = tuple(Point("matmul", {"size": size}) for size in (16, 17, 18))
    settings = make_settings(points=points, limits=RowLimits(samples=240, max_seconds=2.0))
    with pytest.raises(LookupError):
        run_job(settings)
    document = written(settings)
    assert document.status == "interrupted"
    assert [row.parameters["size"] for row in document.measurements] == [16, 17]
    for row, turns in zip(document.measurements, (2, 1), strict=True):
        assert (row.status, len(row.turn_samples)) == ("measured", turns)
        assert row.reason == f"LookupError: nothing to say after {turns} of 12 turns"
    said = capsys.readouterr().out
    assert "batchmark-job: LookupError: nothing to say: writing the 2 rows" in said


def test_error_within_a_row_that_nobody_caught_fails_it(make_settings, explode):
    class Stop(BaseException):
        pass

    explode("edge_detection", Stop("at once"))
    settings = make_settings(points=(MATMUL, EDGES))
    with pytest.raises(Stop):
        run_job(settings)
    document = written(settings)
    assert document.status == "interrupted"
    *_, failed = document.measurements
    assert (failed.status, failed.reason) == ("failed", "Stop: at once; samples taken: 0")


def test_workload_that_is_not_there_ends_the_job_before_it_measures(make_settings, tmp_path):
    with pytest.raises(InputError, match="unknown workload 'gone'"):
        run_job(make_settings(points=(MATMUL, Point("gone", {"size": 16}))))
    assert not list(tmp_path.iterdir())


def test_interruption_after_the_end_does_not_write_again(make_settings):
    settings = make_settings(limits=RowLimits(samples=10, max_seconds=0.01))
    document = document_of(settings)
    machine = Machine(document.actual_device, (1,), document.environment, None)
    recorder = Recorder(settings, machine, JobMarks(), Telemetry([], None, ""), [])
    assert recorder.close() == 0
    assert recorder.interrupt(signal.SIGTERM) == 143
    assert written(settings).status == "complete"
