"""One engine for all tests here, and the images they run; without an engine all are skipped."""

import os
import secrets
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext

import pytest
from docker.errors import DockerException

from tests.containers.debian import Unavailable, run
from tests.containers.engine import open_engine
from tests.containers.images import PYTHON, BuildError, build
from tests.containers.stand_ins import bases, folders_of_wheels
from tests.paths import ROOT

FOLDER = ROOT / "build" / "engine"


def pytest_collection_modifyitems(items):
    """What needs no image of ours runs while they are built."""
    items.sort(key=needs_builds)


def needs_builds(item):
    return "builds" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session", autouse=True)
def _builds_ahead(request):
    if any(map(needs_builds, request.session.items)):
        request.getfixturevalue("builds")


@pytest.fixture(scope="session")
def say(pytestconfig):
    """Print a line at once, whatever pytest captures, with the time since the start."""
    started = time.monotonic()
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        output = os.fdopen(os.dup(1), "w")

    def line(text):
        output.write(f"\n{time.monotonic() - started:5.0f} s  {text}\n")
        output.flush()

    with output:
        yield line


@pytest.fixture(scope="session")
def running_engine(say):
    """The engine; children of the tests find it and its programs in the environment."""
    try:
        with open_engine(FOLDER, say) as engine, pytest.MonkeyPatch.context() as environment:
            for name, value in engine.env.items():
                environment.setenv(name, value)
            yield engine
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def engine(running_engine):
    client = running_engine.client()
    yield client
    client.close()


@pytest.fixture(scope="session")
def base_images(running_engine, say):
    try:
        found = bases(running_engine, FOLDER, say)
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield found
    if found.stand_ins:
        remove_images(running_engine, [found.python, found.postgres])


@pytest.fixture(scope="session")
def client(engine, base_images):
    """The engine, with the base image of Python as PYTHON, for jobs that need no image of ours."""
    engine.images.get(base_images.python).tag(PYTHON)
    yield engine
    engine.images.remove(PYTHON)


@pytest.fixture(scope="session")
def builds(running_engine, base_images, tmp_path_factory, say):
    """The promises of both images' names, built side by side, which no installation uses."""
    version = f"test-{secrets.token_hex(3)}"
    wheels = tmp_path_factory.mktemp("wheels")
    for folder in folders_of_wheels(run([sys.executable, "-m", "pip", "config", "list"]).stdout):
        for wheel in folder.glob("torch-*+cpu-*.whl"):
            shutil.copy(wheel, wheels)

    def built(image, *words, **settings):
        say(f"building {image}: 2 to 5 minutes")
        try:
            seconds = build(running_engine, image, *words, **settings)
        except BuildError:
            say(f"{image} can't be built")
            raise
        say(f"{image} is built, in {seconds:.0f} s")
        return image

    args = {"PYTHON_IMAGE": base_images.python, "VERSION": version}
    with ThreadPoolExecutor() as pool:
        job = pool.submit(
            built,
            f"batchmark-job:{version}",
            ROOT / "job_container",
            target="cpu",
            args=args,
            contexts={"wheels": str(wheels)},
        )
        airflow = pool.submit(
            built,
            f"batchmark-airflow:{version}",
            ROOT,
            file=ROOT / "containers" / "Dockerfile",
            args=args,
        )
        yield {"job": job, "airflow": airflow}
    remove_images(running_engine, [f"batchmark-job:{version}", f"batchmark-airflow:{version}"])


@pytest.fixture(scope="session")
def job_image(builds):
    return builds["job"].result()


@pytest.fixture(scope="session")
def airflow_image(builds):
    """What Compose's AIRFLOW_IMAGE must say."""
    return builds["airflow"].result()


@pytest.fixture(scope="session")
def postgres_image(base_images):
    """What Compose's POSTGRES_IMAGE must say."""
    return base_images.postgres


def remove_images(engine, images):
    with closing(engine.client()) as client:
        for image in images:
            try:
                client.images.remove(image, force=True)
            except DockerException as error:
                print(f"{image} stays: {error}", file=sys.stderr)
