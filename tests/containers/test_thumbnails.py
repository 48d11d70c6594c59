"""The example of an own job, built from its unchanged Dockerfile, below the script as process 1."""

import secrets

import pytest

from batchmark.runs.own_jobs.wrapper import CHECK, command
from tests.containers.conftest import ROOT, remove_images
from tests.containers.images import build
from tests.containers.test_job_image import started
from tests.waiting import PATIENCE_SECONDS, wait_for

FOLDER = ROOT / "job_container" / "own_jobs" / "thumbnails"
CONVERT = ("python3", "convert.py", "--size", "256", "--pictures", "16")
CHECKED = {CHECK: "python3 convert.py --pictures 16 --check"}


@pytest.fixture(scope="module")
def image(running_engine, base_images, say):
    name = f"batchmark-thumbnails:test-{secrets.token_hex(3)}"
    seconds = build(
        running_engine, name, FOLDER, target="cpu", args={"PYTHON_IMAGE": base_images.python}
    )
    say(f"{name} is built, in {seconds:.0f} s")
    yield name
    remove_images(running_engine, [name])


def ended(container):
    code = container.wait(timeout=PATIENCE_SECONDS)["StatusCode"]
    return code, container.logs().decode().splitlines()


def test_it_converts_tells_and_is_checked_without_any_right(engine, image):
    with started(engine, image, *command(CONVERT), environment=CHECKED) as container:
        code, lines = ended(container)
    assert code == 0, lines
    told = [line.split()[2] for line in lines if line.startswith("BATCHMARK_JOB ")]
    assert {"memory_kib", "kernel", "threads"} <= set(told[: told.index("begin")])
    assert told[told.index("end") :][-2:] == ["check", "over"]
    assert sum(line.startswith("BATCHMARK_METRIC_FILE {") for line in lines) == 1
    assert sum(line.startswith("BATCHMARK_METRIC {") for line in lines) == 1
    user = engine.images.get(image).attrs["Config"]["User"]
    assert user == "10001:10001"


def test_where_nothing_can_be_written_metrics_go_through_shared_memory(engine, image):
    tell = ("sh", "-c", 'echo one >>"$BATCHMARK_METRICS"; echo "$BATCHMARK_METRICS"')
    with started(engine, image, *command(tell), tmpfs={}) as container:
        code, lines = ended(container)
    assert code == 0, lines
    assert any(line.startswith("/dev/shm/") for line in lines)
    assert "BATCHMARK_METRIC_FILE one" in lines


def test_batchs_sigterm_reaches_the_command_and_its_code_counts(engine, image):
    waits = ("sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done")
    with started(engine, image, *command(waits)) as container:
        wait_for(lambda: b"ready" in container.logs(), "the command began")
        container.stop(timeout=30)
        code, lines = ended(container)
    assert code == 9
    assert any(line.startswith("BATCHMARK_JOB ") and " end 9 " in line for line in lines)
