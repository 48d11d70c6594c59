"""The local cloud that the tests here share, and what they ask of it."""

from types import SimpleNamespace

import psutil
import pytest

from tests.clouds import running

SPOT_RULES = [
    {"onStatusReason": "Host EC2*", "action": "RETRY"},
    {"onReason": "*", "action": "EXIT"},
]


@pytest.fixture(scope="session")
def job_dir(tmp_path_factory):
    """The folder the shared local cloud starts jobs in."""
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="session")
def cloud(job_dir):
    """A pool of 4 vCPUs, 1,024 MiB and 2 GPUs that takes short limits."""
    options = ["--vcpus", "4", "--memory", "1024", "--gpus", "2", "--job-dir", str(job_dir)]
    with running(*options, "--allow-short-limits", "--stop-grace", "2") as started:
        yield started


def is_running(pid):
    """Whether a process id stands for a live process."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def faults(cloud):
    """Begins a fault; all are ended with the test."""
    with cloud.control() as client:

        def begin(**fault):
            answer = client.post("/_faults", json=fault)
            assert answer.status_code == 201, answer.text
            return str(answer.json()["id"])

        begin.client = client
        yield begin
        client.delete("/_faults")


@pytest.fixture
def gate(tmp_path):
    """A file that jobs wait for: they hold their resources until the test opens it.

    Opened at the test's end in any case, so that no job stays behind.
    """
    path = tmp_path / "open"
    script = f"until [ -e '{path}' ]; do sleep 0.02; done"
    yield SimpleNamespace(path=path, script=script, open=path.touch)
    path.touch()


@pytest.fixture(autouse=True)
def jobs_end_with_their_test(request):
    """One that still ran would hold the shared pool's resources, and fail the tests after it."""
    yield
    if "cloud" in request.fixturenames:
        request.getfixturevalue("cloud").end_jobs()
