"""Jobs that were not written for Batchmark, as containers of an image that has nothing of ours."""

import io
import tarfile

import pytest

from tests.builders.installations import target
from tests.builders.watched_jobs import plan
from tests.containers.images import PYTHON
from tests.containers.jobs import start
from tests.e2e.local_cloud import operator_runs
from tests.e2e.own_job_runs import CPU, GPU, told
from tests.e2e.quick_job.work import FAILS, LOUD, MARK, WRONG
from tests.e2e.stacks import JOB_DIR

FOLDER = "/work"
SIZE = 2
CHECK = f'! rm "{MARK.format("$AWS_BATCH_JOB_ID")}"'


@pytest.fixture(scope="module")
def image(client):
    """Its digest is its id."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(JOB_DIR / "work.py", f"{FOLDER}/work.py")
    made = client.containers.create(PYTHON, "true")
    try:
        made.put_archive("/", packed.getvalue())
        conf = {"WorkingDir": FOLDER, "Cmd": ["true"]}
        kept = made.commit("batchmark-test-own-job", "1", conf=conf)
        yield kept
        client.images.remove(kept.id)
    finally:
        made.remove(force=True)


@pytest.fixture(scope="module")
def documents(image):
    """The documents of (target, words) of the program, each a job below the wrapper."""
    cases = [
        *((CPU, ("sweep", SIZE)), (GPU, ("case", WRONG))),
        *((CPU, ("case", case)) for case in (FAILS, WRONG, LOUD)),
    ]
    with start() as cloud:
        targets = {}
        for name, device, gpus in ((GPU, "cuda", 1), (CPU, "cpu", 0)):
            container = {"image": image.tags[0]}
            definition = cloud.define(["true"], memory=128, gpus=gpus, container=container)
            queues = {"job_queue": cloud.create_queue(), "on_demand_queue": None}
            targets[name] = target(device, job_definition=definition, **queues)
        jobs = [
            operator_runs.job(
                name,
                plan(
                    job_definition=targets[name]["job_definition"],
                    command=("python", "work.py", *map(str, words)),
                    check=CHECK,
                ),
                repeat=repeat,
                timeout_seconds=120,
            )
            for repeat, (name, words) in enumerate(cases, 1)
        ]
        collected = operator_runs.run(cloud, targets, jobs).collected
    assert collected.lost == ()
    return dict(zip(cases, (each.document for each in collected.jobs), strict=True))


def test_documents_know_image_and_metrics_and_a_failure_costs_itself_alone(documents, image):
    for document in documents.values():
        assert document.environment.image == image.tags[0]
        assert document.environment.image_digest == image.id
        assert document.own_job.wrapped
    document = documents[CPU, ("sweep", SIZE)]
    metrics = {"rate": (pytest.approx(SIZE / 100),), "error": (pytest.approx(0.5),)}
    assert told(document) == metrics, "of both sources"
    assert document.own_job.check.passed
    assert documents[CPU, ("case", FAILS)].own_job.exit_code == 3
    passed = [documents[name, ("case", WRONG)].own_job.check.passed for name in (GPU, CPU)]
    assert passed == [False, True]
    document = documents[CPU, ("case", LOUD)]  # of 100,000 lines what comes last is told
    assert document.own_job.check.passed
    assert told(document) == {"rate": (pytest.approx(1 / 9),)}
