"""The job as a process: what it measures, prints and leaves, and how it ends."""

import contextlib
import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from batchmark.report.sharing.charts import sharing_charts
from batchmark_job.result.document import parse_document
from tests.builders.reports import report_of
from tests.builders.runs import build_run
from tests.builders.sharing import sharing_job
from tests.documented import arguments, documented, the_command, typed
from tests.e2e.job.conftest import NAMESPACE, ended, metrics_of, skip_where_too_slow_to_publish
from tests.paths import ROOT
from tests.waiting import wait_for

LONG_MATMUL = (
    *("--workload", "matmul", "--axis", "size=32,10000", "--device", "cpu", "--threads", "1"),
    *("--max-seconds", "1"),
)


def wait_for_line(process, pattern):
    """Read the process's output up to a line that matches."""
    seen = []
    for line in process.stdout:
        if re.search(pattern, line):
            return line
        seen.append(line)
    pytest.fail(f"no line like {pattern!r} in {seen}; {process.communicate()[1]}")


def cpu_seconds(process):
    """Of its whole tree so far; of time that passes, a busy machine gives it little."""
    root = psutil.Process(process.pid)
    used = [each.cpu_times() for each in (root, *root.children(recursive=True))]
    return sum(each.user + each.children_user for each in used)


def wait_until_computing(process, seconds):
    """Until one of its workers has used so much processor time."""

    def used():
        workers = psutil.Process(process.pid).children(recursive=True)
        with contextlib.suppress(psutil.NoSuchProcess):
            return max((worker.cpu_times().user for worker in workers), default=0.0)
        return 0.0

    wait_for(lambda: used() >= seconds, "computing")


def test_smoke_suite(start_job, tmp_path):
    of_readme, of_jobs_readme = documented(".venv/bin/batchmark-job run --suite smoke")
    assert of_jobs_readme.startswith(of_readme)
    _run, *given = arguments(of_jobs_readme.replace("/tmp/results", f"{tmp_path}/raw"))
    process = start_job(
        *(*given, "--dtype", "float32", "--threads", "1"),
        *("--run-id", "a-run", "--target", "c5.2xlarge"),
        *("--max-seconds", "0.05"),
        AWS_BATCH_JOB_ID="ab-cd:3",
        AWS_BATCH_JOB_ATTEMPT="2",
    )
    out, _ = ended(process)
    document = parse_document((tmp_path / "raw" / "ab-cd_3.2.json").read_bytes())
    assert (document.job_id, document.job_attempt) == ("ab-cd:3", 2)
    # Other tests may load the machine so much that a row does not settle, or has few samples.
    assert {row.status for row in document.measurements} <= {"measured", "unsettled"}
    assert all(len(row.samples_seconds) >= 6 or row.reason for row in document.measurements)
    assert {ceiling.kind for ceiling in document.ceilings} == {"compute", "copy", "read"}
    progress = re.findall(r"^\[(\d+)/(\d+)\] .* float32: (?!turn 1 )", out, flags=re.MULTILINE)
    count = len(document.measurements)
    assert progress == [(str(index), str(count)) for index in range(1, count + 1)]


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_signal_during_a_long_call(number, exit_code, start_job, moto_client, tmp_path):
    cloudwatch = moto_client("cloudwatch")
    before = os.times().children_user
    process = start_job(
        *(*LONG_MATMUL, "--target", number.name, "--metrics-namespace", NAMESPACE),
        *("--output", f"{tmp_path}/result.json"),
        AWS_ENDPOINT_URL=cloudwatch.meta.endpoint_url,
    )
    wait_for_line(process, r"\] matmul size=32 ")
    wait_until_computing(process, seconds=4)
    used = cpu_seconds(process)
    process.send_signal(number)
    out, _ = ended(process, exit_code)
    used_since = os.times().children_user - before - used
    assert used_since < 5, "it waited for the call, which takes far longer"
    assert "writing the 2 rows measured so far" in out
    document = parse_document((tmp_path / "result.json").read_bytes())
    assert document.status == "interrupted"
    done, unfinished = document.measurements
    assert done.status in {"measured", "unsettled"}
    assert unfinished.status == "interrupted"
    assert unfinished.reason.startswith(f"{number.name}; samples taken: ")
    skip_where_too_slow_to_publish(out)
    assert metrics_of(cloudwatch, number.name) == {"CPUUtilization", "MemoryUsed"}


def test_signal_before_the_first_row(start_job, tmp_path):
    process = start_job("--suite", "smoke", "--output", f"{tmp_path}/result.json")
    # Python blocks its signals only when our code starts to run.
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("can't see from outside which signals a process blocks")

    def blocked():
        line = next(x for x in status.read_text().splitlines() if x.startswith("SigBlk"))
        return int(line.split()[1], 16) & (1 << (signal.SIGTERM - 1))

    wait_for(blocked, "blocked SIGTERM", every=0)
    process.terminate()
    out, _ = ended(process, 143)
    assert not (tmp_path / "result.json").exists() or "writing the" in out


def test_without_an_output_a_new_file_and_a_table_are_left(tmp_path):
    env = {"PYTHONPATH": str(ROOT / "job_container")}
    ran = typed(
        the_command(".venv/bin/batchmark-job run --workload matmul")
        + " --max-seconds 0.05 --samples 10 --no-ceilings --threads 1",
        tmp_path,
        env,
    )
    (written,) = tmp_path.iterdir()
    assert f"wrote {written.name}" in ran
    table = ran[ran.index("suite custom on cpu") :]
    assert "matmul size=1000 float32" in table
    assert parse_document(written.read_bytes()).status == "complete"
    show = the_command(".venv/bin/batchmark-job show ")
    assert typed(show.replace("/tmp/results/local.1.json", written.name), tmp_path, env) in ran


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
