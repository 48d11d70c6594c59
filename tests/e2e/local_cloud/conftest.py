"""The local cloud that the tests here share, and what they ask of it."""

import psutil
import pytest

from tests.clouds import running


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


@pytest.fixture
def is_running():
    """Whether a process id stands for a live process."""

    def check(pid):
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return check


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


class Gate:
    """A file that jobs wait for: they hold their resources until the test opens it."""

    def __init__(self, path):
        self.path = path
        self.script = f"until [ -e '{path}' ]; do sleep 0.02; done"

    def open(self):
        self.path.touch()


@pytest.fixture
def gate(tmp_path):
    """Opened at the test's end in any case, so that no job stays behind."""
    made = Gate(tmp_path / "open")
    yield made
    made.open()


@pytest.fixture(autouse=True)
def jobs_end_with_their_test(request):
    """One that still ran would hold the shared pool's resources, and fail the tests after it."""
    yield
    if "cloud" in request.fixturenames:
        request.getfixturevalue("cloud").end_jobs()
