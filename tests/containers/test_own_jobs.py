"""Jobs that were not written for Batchmark, as containers of real images."""

import io
import tarfile
from contextlib import closing

import pytest

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from tests.containers.images import PYTHON
from tests.e2e.own_job_runs import (
    CASES,
    CPU,
    GPU,
    OWN,
    REPEATS,
    SIZES,
    SWEEP,
    TARGETS,
    TIMEOUT_SECONDS,
    case_of,
    documents_of_run,
    figures,
    own_job_stack,
    own_jobs,
    report_of_run,
    told,
)
from tests.e2e.quick_job.work import ENDLESS, FAILS, LOUD, MALFORMED, WRONG
from tests.e2e.stacks import JOB_DIR, run_all

pytestmark = pytest.mark.timeout(1800)

FOLDER = "/work"
TAG = "batchmark-test-own-job"


@pytest.fixture(scope="module")
def image(client):
    """An image with the program and nothing of ours; its digest is its id."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(JOB_DIR / "work.py", f"{FOLDER}/work.py")
    made = client.containers.create(PYTHON, "true")
    try:
        made.put_archive("/", packed.getvalue())
        kept = made.commit(TAG, "1", conf={"WorkingDir": FOLDER, "Cmd": ["true"]})
        yield kept
        client.images.remove(kept.id)
    finally:
        made.remove(force=True)


@pytest.fixture(scope="module")
def stack(image, tmp_path_factory):
    jobs, folder = own_jobs(image.tags[0]), tmp_path_factory.mktemp("own_jobs")
    with own_job_stack(folder, jobs, engine=True) as running:
        yield running


@pytest.fixture(scope="module")
def aws(stack):
    with closing(AwsClients(stack)) as clients:
        yield clients


@pytest.fixture(scope="module")
def airflow(stack):
    with AirflowClient(stack.airflow) as client:
        yield client


@pytest.fixture(scope="module")
def runs(airflow):
    cases = CASES | {"sizes": [FAILS, WRONG, MALFORMED]}
    return run_all(airflow, {"sweep": (OWN, SWEEP), "cases": (OWN, cases)})


@pytest.fixture(scope="module")
def slow_documents(airflow, aws):
    """Of the cases that take a minute each."""
    cases = CASES | {"sizes": [LOUD, ENDLESS]}
    runs = run_all(airflow, {"slow": (OWN, cases)})
    return documents_of_run(aws, runs["slow"][0])


@pytest.fixture(scope="module")
def report_of(aws, runs):
    return lambda name: report_of_run(aws, runs[name][0])


@pytest.fixture(scope="module")
def documents_of(aws, runs):
    return lambda name: documents_of_run(aws, runs[name][0])


def test_each_target_is_measured_at_each_size(runs, report_of):
    assert runs["sweep"][1] == "success"
    found = figures(report_of("sweep"))
    assert set(found) == {(target, size) for target in TARGETS for size in SIZES}
    assert {figure.jobs for figure in found.values()} == {REPEATS, REPEATS + 1}


def test_metrics_of_both_sources_arrive(report_of):
    for (_, size), figure in figures(report_of("sweep")).items():
        metrics = {each.metric: each.value.value for each in figure.metrics}
        assert metrics == {"rate": pytest.approx(100 / size), "error": pytest.approx(0.5)}


def test_the_document_knows_the_image(documents_of, image):
    documents = documents_of("sweep")
    assert {each.environment.image for each in documents} == {image.tags[0]}
    assert {each.environment.image_digest for each in documents} == {image.id}
    assert all(each.own_job.wrapped for each in documents)


def test_a_failure_and_a_failed_check_cost_themselves_alone(runs, documents_of, report_of):
    assert runs["cases"][1] == "failed"
    documents = documents_of("cases")
    assert {case_of(documents, FAILS, target).own_job.exit_code for target in TARGETS} == {3}
    passed = [case_of(documents, WRONG, target).own_job.check.passed for target in (GPU, CPU)]
    assert passed == [False, True]
    found = figures(report_of("cases"))
    assert found[GPU, WRONG].problem
    assert found[CPU, WRONG].problem is None


def test_bad_lines_are_named_and_the_good_ones_kept(documents_of):
    document = case_of(documents_of("cases"), MALFORMED, CPU)
    assert len(document.own_job.bad_lines) == 3
    assert set(told(document)) == {"rate", "share"}


@pytest.mark.full_matrix
def test_a_job_that_prints_100_000_lines_tells_what_comes_last(slow_documents):
    document = case_of(slow_documents, LOUD, CPU)
    assert document.own_job.check.passed
    assert told(document) == {"rate": (pytest.approx(1 / 9),)}


@pytest.mark.full_matrix
def test_a_job_that_never_ends_is_ended_by_its_timeout(slow_documents):
    document = case_of(slow_documents, ENDLESS, GPU)
    assert not document.own_job.check.passed
    assert document.own_job.running_seconds == pytest.approx(TIMEOUT_SECONDS, abs=20)
