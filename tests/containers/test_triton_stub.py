"""Triton's stub from the image's build: what the gpu variant needs a compiler for otherwise.

Only the stage that compiles it is built, with Triton and without torch's 3 GB of CUDA.
"""

import secrets

import pytest

from tests.containers.images import build
from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS

JOB = ROOT / "job_container"
# The job's own copying, then Triton's own look-up and load, with no compiler to be had.
LOAD = """
import importlib.util, os, pathlib, sys
sys.path.insert(0, "/job")
from build_triton_stub import build_libcuda
if sys.argv[1:] == ["libcuda"]:
    os.mkdir("/tmp/libraries")
    build_libcuda(pathlib.Path("/tmp/libraries"))
    os.environ.update(
        CC="/no/compiler", LD_LIBRARY_PATH="/tmp/libraries", TRITON_LIBCUDA_PATH="/tmp/libraries"
    )
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1]])
spec = importlib.util.spec_from_file_location(
    "triton_stub", "/job/batchmark_job/workloads/support/triton_stub.py"
)
triton_stub = importlib.util.module_from_spec(spec)
spec.loader.exec_module(triton_stub)
triton_stub.install()
from triton.backends.nvidia.driver import CudaUtils
print(CudaUtils().launch)
"""


@pytest.fixture(scope="module")
def stub_image(running_engine, base_images, engine):
    image = f"batchmark-triton-stub:test-{secrets.token_hex(3)}"
    args = {"PYTHON_IMAGE": base_images.python}
    build(running_engine, image, JOB, target="triton-stub", args=args)
    yield image
    engine.images.remove(image, force=True)


@pytest.mark.parametrize(("shipped", "loads"), [("/opt/triton_stub", True), ("/none", False)])
def test_triton_loads_it_where_there_is_no_compiler(shipped, loads, engine, stub_image):
    container = engine.containers.run(
        stub_image,
        ["/opt/venv/bin/python", "-c", LOAD, "libcuda"],
        detach=True,
        network_mode="none",
        volumes={str(JOB): {"bind": "/job", "mode": "ro"}},
        environment={"BATCHMARK_TRITON_STUB": shipped, "TRITON_CACHE_DIR": "/tmp/triton"},
    )
    try:
        code = container.wait(timeout=PATIENCE_SECONDS)["StatusCode"]
        log = container.logs().decode()
    finally:
        container.remove(force=True, v=True)
    assert (code == 0) == loads, log
    assert ("<built-in function launch>" in log) == loads
    assert ("/no/compiler" in log) != loads
