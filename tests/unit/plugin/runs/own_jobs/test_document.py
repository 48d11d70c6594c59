"""The result document of an own job, of whatever is known of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchmark.aws.job_description import batch_time
from batchmark.aws.job_hosts import JobHost
from batchmark.aws.job_log import FACT_MARK
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.check import TIMED_OUT
from batchmark.runs.own_jobs.document import Image, WatchedJob, last_span
from batchmark.runs.own_jobs.lines import NOT_KNOWN, Facts, JobOutput
from batchmark_job.result.document import Device, Implementation, MeasurementStatus, parse_document
from batchmark_job.result.metric import MetricLine
from batchmark_job.result.values import MOST_ROWS
from batchmark_job.result.version import GivenVersion
from tests.builders.hostile import fuzzed
from tests.builders.hostile_lines import marked_lines
from tests.builders.watched_jobs import (
    BEGIN,
    CREATED,
    DIGEST,
    GPU,
    HOST,
    STARTED,
    STOPPED,
    described,
    expected,
    facts,
    host,
    marked,
    metric,
    plan,
    read_lines,
    told,
)

OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
STOPPED_AT_LIMIT = described("FAILED", code=137, statusReason=TIMED_OUT)
WITHOUT_SHA256 = "its log does not contain the SHA-256 of its output out"
KILLED_IN_IT = (
    f"Batch reports a problem with its container, which exited with code 0: {OUT_OF_MEMORY}"
)


def document(
    job=None, said=None, where=None, *, on_aws=True, own_job=None, device="cuda", version=None
):
    """The document, as it can be read again."""
    job, said = job or described(), told(gpus=[GPU]) if said is None else said
    wanted = expected(own_job, device=device).model_copy(update={"version": version})
    watched = WatchedJob(wanted, wanted.own_job, job, said, where or host(), on_aws, last_span(job))
    return parse_document(watched.document().to_json())


def test_the_whole_job_is_a_row_with_one_sample():
    found = document(own_job=plan(axis="size", size=64))
    (row,) = found.measurements
    assert (row.workload, row.dtype) == ("thumbnails", "none")
    assert row.status is MeasurementStatus.MEASURED
    assert row.parameters == {"size": 64, "start": "warm"}
    assert (row.samples_seconds, row.cold_seconds) == ((90.5,), 90.5)
    assert row.implementation == Implementation(name="docker.io/lab/thumbnails", version="3.1")
    assert row.check.passed
    assert row.peak_memory_bytes is None, "what its container had includes files"
    own = found.own_job
    assert (own.image, own.command) == ("docker.io/lab/thumbnails:3.1", "python convert.py")
    assert (own.wrapped, own.exit_code, own.command_seconds) == (True, 0, 80.25)
    assert (own.waiting_seconds, own.running_seconds) == (100.0, 90.5)
    assert (own.host, own.purchase_option, own.start) == (HOST, "spot", "warm")
    assert document(own_job=plan(command=())).own_job.command is None, "an image's own is not known"


def test_a_document_names_its_job_its_version_and_what_it_ran_on_as_far_as_that_is_known():
    version = GivenVersion(commit="3f2a91c", label="spring")
    found = document(version=version)
    assert found.version == version
    assert (found.run_id, found.target, found.suite) == ("run", "g5.xlarge", "job-thumbnails")
    assert (found.job_id, found.job_attempt) == (described()["jobId"], 1)
    assert (found.started_at, found.finished_at) == (batch_time(STARTED), batch_time(STOPPED))
    assert (found.total_seconds, found.status) == (90.5, "complete")
    environment = found.environment
    assert environment.instance_type == "g5.2xlarge"
    assert environment.availability_zone == "us-east-1b"
    assert environment.compute_environment == "lab"
    assert (environment.cpu_model, environment.cpu_threads) == ("AMD EPYC 7R32", 4)
    assert environment.memory_bytes == 16_000_000 * 2**10
    assert (environment.gpu_model, environment.gpu_count) == ("NVIDIA A10G", 1)
    assert environment.gpu_memory_bytes == 23028 * 2**20
    assert environment.image == "docker.io/lab/thumbnails:3.1"
    assert environment.image_digest == DIGEST
    environment = document(said=NOT_KNOWN, where=JobHost()).environment
    unknown = (environment.cpu_model, environment.kernel, environment.torch_version)
    assert unknown == ("unknown",) * 3
    assert (environment.cpu_threads, environment.memory_bytes) == (4, 8 * 2**30)
    assert (environment.instance_type, environment.image_digest) == (None, None)
    named = "sha256:" + "12" * 32
    found = document(described(container={"image": f"lab/thumbnails@{named}"}))
    assert found.environment.image_digest == named
    assert found.measurements[0].implementation.version == "12" * 6


@pytest.mark.parametrize(
    ("reference", "name", "version"),
    [
        ("lab", "lab", "latest"),
        ("lab:3", "lab", "3"),
        ("registry.example:5000/lab/a", "registry.example:5000/lab/a", "latest"),
        ("registry.example:5000/lab/a:b", "registry.example:5000/lab/a", "b"),
        (f"lab:3@{DIGEST}", "lab", "3"),
        (f"lab@{DIGEST}", "lab", "ab" * 6),
        (":", "", "latest"),
    ],
)
def test_the_parts_of_an_image_reference(reference, name, version):
    image = Image.of(reference)
    assert (image.name, image.version) == (name, version)


@pytest.mark.parametrize(
    ("registered", "start"), [(CREATED - 1000, "warm"), (CREATED + 1000, "cold"), (None, None)]
)
def test_an_instance_that_was_there_before_the_job_or_its_last_attempt_is_warm(registered, start):
    where = host(registered_at=registered and batch_time(registered))
    found = document(where=where)
    assert found.own_job.start == start
    assert found.measurements[0].parameters == ({"start": start} if start else {})
    first = {"startedAt": CREATED + 20_000, "stoppedAt": CREATED + 60_000}
    second = document(described(earlier=[first]), where=where)
    assert second.job_attempt == 2
    assert (second.own_job.start, second.own_job.waiting_seconds) == (start and "warm", 40.0)


def test_nothing_stands_for_an_instance_off_aws_nor_for_a_wait_before_the_submission():
    found = document(on_aws=False)
    own, environment = found.own_job, found.environment
    assert (own.start, own.purchase_option) == (None, None)
    assert (environment.instance_type, environment.availability_zone) == (None, None)
    assert found.measurements[0].parameters == {}
    assert document(described(createdAt=STARTED + 1)).own_job.waiting_seconds is None


GPU_ASKED = {"resourceRequirements": [{"type": "GPU", "value": "2"}]}


@pytest.mark.parametrize(
    ("device", "said", "on_aws", "container", "ran_on"),
    [
        ("cuda", told(gpus=[GPU]), False, {}, Device.CUDA),
        ("cuda", told(), True, GPU_ASKED, Device.CUDA),  # its image has no nvidia-smi
        ("cuda", told(), False, GPU_ASKED, Device.CPU),
        ("cuda", NOT_KNOWN, True, GPU_ASKED, Device.CUDA),
        ("cuda", NOT_KNOWN, False, GPU_ASKED, Device.CPU),
        ("cuda", NOT_KNOWN, True, {}, Device.CPU),
        ("cpu", told(gpus=[GPU]), True, GPU_ASKED, Device.CPU),
    ],
)
def test_only_a_job_with_a_gpu_ran_on_one(device, said, on_aws, container, ran_on):
    job = described(container=container)
    assert document(job, said, on_aws=on_aws, device=device).actual_device is ran_on


@pytest.mark.parametrize("said", [NOT_KNOWN, told()])
def test_a_gpu_that_batch_gave_a_job_that_does_not_name_it_has_no_model(said):
    environment = document(described(container=GPU_ASKED), said).environment
    assert (environment.gpu_count, environment.gpu_model) == (2, None)


def test_a_metric_is_a_row_of_its_own_in_which_less_is_better_up_to_its_bounds():
    lines = [metric(value="4"), metric("loss", "0.5", "1", "false"), metric(value="5")]
    _, speed, loss = document(said=told(*lines)).measurements
    named = {"metric": "speed", "unit": "images/s", "better": "higher"}
    assert speed.parameters == named | {"start": "warm"}
    assert (speed.samples_seconds, speed.cold_seconds) == ((0.25, 0.2), 0.25)
    assert (loss.parameters["better"], loss.samples_seconds) == ("lower", (0.5,))
    assert loss.peak_memory_bytes is None
    lines = [metric(way, one, better=way) for one in ("1e-9", "1e9") for way in ("true", "false")]
    found = document(said=told(*lines))
    samples = [row.samples_seconds for row in found.measurements[1:]]
    assert samples == [pytest.approx((1e9, 1e-9)), pytest.approx((1e-9, 1e9))]
    lines = tuple(
        MetricLine(metric=f"m{n}", value=1.0, unit="s", higher_is_better=False)
        for n in [*range(MOST_ROWS + 5), MOST_ROWS + 4]
    )
    found = document(said=JobOutput(Facts(began=True), lines, metrics_left_out=2))
    assert len(found.measurements) == MOST_ROWS
    assert found.own_job.metrics_left_out == 2 + 7


@pytest.mark.parametrize(
    ("own_job", "job", "reason", "status"),
    [
        (plan(), described("FAILED", code=3), "exit code 3 (the command's own error)", "complete"),
        (plan(), STOPPED_AT_LIMIT, f"exit code 137; {TIMED_OUT}", "interrupted"),
        (plan(output="out"), described(), WITHOUT_SHA256, "complete"),
    ],
)
def test_all_rows_of_a_job_that_did_not_pass_failed_with_the_reason(own_job, job, reason, status):
    found = document(job, told(metric()), own_job=own_job)
    assert [row.status for row in found.measurements] == [MeasurementStatus.FAILED] * 2
    assert [row.reason for row in found.measurements] == [reason] * 2
    assert found.measurements[1].samples_seconds == (1 / 12.5,), "what it told is kept"
    assert not found.own_job.check.passed
    assert found.status == status


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"statusReason": "Host EC2 (instance i-0f) terminated."}, "interrupted"),
        ({"statusReason": "took too long", "isTerminated": True}, "failed"),
    ],
)
def test_a_job_that_told_no_end_failed_unless_it_lost_its_host(fields, status):
    job = described("FAILED", code=None, **fields)
    found = document(job, read_lines(marked(*facts(*BEGIN), metric())))
    assert {row.status for row in found.measurements} == {MeasurementStatus(status)}
    assert found.measurements[0].reason == f"no exit code; {fields['statusReason']}"
    assert found.status == "interrupted"
    assert (found.own_job.wrapped, found.own_job.command_seconds) == (True, None)


IMPOSSIBLE = {
    "according to Batch, it ran for 0 s": {"stoppedAt": STARTED},
    "according to Batch, it ran for -35.5 s": {"stoppedAt": STARTED - 35_500},
}


@pytest.mark.parametrize(("problem", "attempt"), IMPOSSIBLE.items())
def test_where_batchs_times_can_not_be_the_jobs_own_clock_serves(problem, attempt):
    job = described(attempt=attempt)
    found = document(job)
    assert found.measurements[0].samples_seconds == (80.25,) == (found.total_seconds,)
    assert found.own_job.running_seconds is None
    why = f"{problem}, so its time covers only the command, measured by the job's own clock"
    assert found.own_job.doubts == (why,)
    assert (found.finished_at - found.started_at).total_seconds() == 80.25
    found = document(job, read_lines(marked(metric())), own_job=BARE)
    whole, speed = found.measurements
    assert (whole.status, whole.samples_seconds) == (MeasurementStatus.FAILED, ())
    assert whole.reason == f"its time is unknown: {problem}"
    assert (speed.status, speed.samples_seconds) == (MeasurementStatus.MEASURED, (1 / 12.5,))
    assert (found.total_seconds, found.own_job.running_seconds) == (None, None)
    assert found.own_job.doubts == ()


BARE = plan(shell=False)
WITHOUT_START = {"stoppedAt": STOPPED, "container": {"exitCode": 0}}


@pytest.mark.parametrize(
    ("own_job", "said", "samples", "told_of_it"),
    [
        (plan(), told(), (80.25,), "its time covers only the command"),
        (BARE, read_lines([]), (), "its time is unknown: Batch reports no start time for it"),
    ],
)
def test_an_attempt_without_start_took_what_its_own_clock_says(own_job, said, samples, told_of_it):
    found = document(described(attempts=[WITHOUT_START]), said, own_job=own_job)
    (row,) = found.measurements
    assert row.samples_seconds == samples
    assert told_of_it in f"{row.reason} {found.own_job.doubts}"
    assert (found.own_job.running_seconds, found.own_job.waiting_seconds) == (None, None)
    assert found.finished_at == batch_time(STOPPED)


@pytest.mark.parametrize(
    ("attempt", "status", "ran"),
    [
        ({"stoppedAt": STOPPED, "container": {"exitCode": 137}}, "FAILED", True),
        ({"stoppedAt": STOPPED}, "SUCCEEDED", True),
        ({"stoppedAt": STOPPED, "container": {"reason": "CannotPull"}}, "FAILED", False),
    ],
)
def test_which_attempts_without_a_start_have_run(attempt, status, ran):
    assert (last_span(described(status, attempts=[attempt])) == (None, STOPPED)) is ran


@pytest.mark.parametrize(
    ("job", "doubts"),
    [
        (described(), ()),
        (described(container={"reason": OUT_OF_MEMORY}), (KILLED_IN_IT,)),
        (described(attempt={"container": {"reason": OUT_OF_MEMORY}}), (KILLED_IN_IT,)),
        (described("FAILED", code=137, container={"reason": OUT_OF_MEMORY}), ()),
    ],
)
def test_what_its_figures_are_to_be_read_with_care_for(job, doubts):
    assert document(job, told(metric())).own_job.doubts == doubts


def test_stages_and_telemetry_say_no_more_than_was_told():
    pulled = batch_time(STARTED - 2000)
    where = host(image_pull_stopped_at=pulled, container_started_at=batch_time(STARTED - 1000))
    marks = document(where=where).marks
    began = batch_time(STARTED + len(BEGIN))  # a line each millisecond, and one of a GPU
    assert (marks.image_pull_stopped_at, marks.process_started_at) == (pulled, began)
    unwrapped = document(described(attempt={"startedAt": STARTED + 7}), NOT_KNOWN)
    assert unwrapped.marks.process_started_at == batch_time(STARTED + 7)
    found = document(said=told(*facts("gpu_busy 16 71.5 98 2048"))).telemetry
    assert [(one.metric, one.samples, one.minimum, one.mean, one.maximum) for one in found] == [
        ("HostCPUUtilization", 1, 75.0, 75.0, 75.0),
        ("PeakMemoryAndFileCache", 1, 2000.0, 2000.0, 2000.0),
        ("GPUUtilization", 16, None, 71.5, 98.0),
        ("PeakGPUMemory", 16, 2147.483648, 2147.483648, 2147.483648),
    ]
    assert document(said=NOT_KNOWN).telemetry == ()


def test_texts_of_any_length_fit():
    own_job = OwnJobPlan(name="a", job_definition="d", command=("x" * 5000,), check="c")
    job = described("FAILED", code=1, statusReason="y" * 5000, container={"image": "z" * 5000})
    found = document(job, NOT_KNOWN, own_job=own_job)
    assert len(found.own_job.command) == len(found.measurements[0].reason) == 2000
    assert len(found.environment.image) == 300


@given(st.lists(marked_lines(), max_size=20), st.booleans())
@fuzzed(100)
def test_whatever_a_job_tells_its_lines_are_no_error_and_its_document_can_be_read(lines, on_aws):
    said = read_lines(lines)
    metrics = [line for line in lines if not line.text.startswith(FACT_MARK)]
    assert len(said.metrics) + len(said.bad_lines) == len(metrics)
    found = document(said=said, on_aws=on_aws)
    assert found.measurements[0].samples_seconds == (90.5,)
