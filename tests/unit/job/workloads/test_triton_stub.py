"""Triton's stub as the image ships it: built without a GPU, and found where no compiler is."""

import importlib.util
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from batchmark_job.workloads.support import triton_stub
from tests.builders.files import finished
from tests.paths import ROOT

BUILD = ROOT / "job_container" / "build_triton_stub.py"
needs_triton_and_gcc = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or shutil.which("gcc") is None,
    reason="needs triton and gcc; tests/containers builds it in the image",
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Triton's cache, not there yet; the image's stub lies beside it."""
    stub = tmp_path / "image" / "A-KEY" / "cuda_utils.so"
    stub.parent.mkdir(parents=True)
    stub.write_bytes(b"compiled")
    stub.chmod(0o644)
    folder = tmp_path / "tmp" / "triton"
    knobs = SimpleNamespace(cache=SimpleNamespace(dir=str(folder)))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(knobs=knobs))
    monkeypatch.setenv("BATCHMARK_TRITON_STUB", str(tmp_path / "image"))
    triton_stub.install.cache_clear()
    return folder


def test_it_is_copied_once_to_where_triton_looks_where_there_is_one(cache, tmp_path, monkeypatch):
    monkeypatch.delenv("BATCHMARK_TRITON_STUB")
    triton_stub.install()
    assert not cache.exists()
    monkeypatch.setenv("BATCHMARK_TRITON_STUB", str(tmp_path / "image"))
    triton_stub.install.cache_clear()
    triton_stub.install()
    (copy,) = cache.rglob("*.so")
    assert copy == cache / "A-KEY" / "cuda_utils.so"
    assert copy.read_bytes() == b"compiled"
    assert copy.stat().st_mode & 0o777 == 0o644
    assert list(copy.parent.iterdir()) == [copy]
    copy.write_bytes(b"mine")  # another process may have it loaded
    triton_stub.install.cache_clear()
    triton_stub.install()
    assert copy.read_bytes() == b"mine"


@needs_triton_and_gcc
def test_the_build_finds_its_stub_again(tmp_path):
    folder = tmp_path / "stub"
    subprocess.run([sys.executable, str(BUILD), str(folder)], check=True)
    (stub,) = folder.rglob("*.so")
    assert stub.name.startswith("cuda_utils.")


@needs_triton_and_gcc
def test_a_stub_that_triton_would_not_find_ends_the_build(tmp_path):
    """As where `file` is installed later: its answer is in Triton's key."""
    others = "import os, platform\nplatform.architecture = lambda: (str(os.getpid()), '')\n"
    (tmp_path / "sitecustomize.py").write_text(others)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    ended = finished(sys.executable, str(BUILD), str(tmp_path / "stub"), env=env)
    assert ended.returncode == 1
    assert "/no/compiler" in ended.stderr
