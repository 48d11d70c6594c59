"""What the job's unit tests share."""

import os
import sys

import pytest
import torch

from batchmark_job.machine import mps
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring import prepared
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.output import FileOutput
from batchmark_job.settings import JobSettings
from batchmark_job.suites import Point
from tests.builders.files import program
from tests.paths import ROOT
from tests.stand_ins import cuda as simulated_cuda

SMALL_CACHE_BYTES = 2**16  # so that few inputs fill it, and few graphs are captured


def pytest_collection_modifyitems(items):
    """So that gpu-check can choose what a device alone can show."""
    for item in items:
        if "cuda" in item.fixturenames:
            item.add_marker(pytest.mark.needs_cuda)


@pytest.fixture
def cuda():
    """A CUDA device: a real one where there is one, and else a simulated one, which is yielded."""
    if simulated_cuda.REAL_DEVICE:
        yield None
        return
    with simulated_cuda.installed("A10G", cache_bytes=SMALL_CACHE_BYTES) as gpu:
        yield gpu


@pytest.fixture(autouse=True)
def own_threads():
    """The threads that a job sets go with its test: waiting for each other, they slow others."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        set_threads(before)


@pytest.fixture
def short_turns(monkeypatch):
    """A tenth of the time for each turn of a trial, for jobs whose figures nobody looks at."""
    monkeypatch.setattr(prepared, "TURN_SECONDS", 0.001)
    monkeypatch.setattr(prepared, "TRIAL_WARMUP_SECONDS", 0.001)


@pytest.fixture
def thin_network(monkeypatch):
    """ResNet-50 with a quarter of its channels."""
    from tests.stand_ins.thin_network import become_thin  # loads torch

    become_thin(monkeypatch.setattr)


@pytest.fixture
def make_settings(tmp_path, short_turns):
    """Settings of a tiny job on the CPU; name what differs."""

    def make(**changes):
        settings = {
            "run_id": "a-run",
            "job_id": "a-job",
            "job_attempt": 2,
            "target": "a-target",
            "suite": "custom",
            "points": (Point("matmul", {"size": 16}), Point("matmul", {"size": 17})),
            "limits": RowLimits(samples=10, max_seconds=0.05),
            "requested_device": "cpu",
            "threads": 1,
            "allow_cpu_fallback": False,
            "output": FileOutput(tmp_path / "result.json"),
            "metrics_namespace": None,
            "ceilings": False,
        }
        return JobSettings(**(settings | changes))

    return make


@pytest.fixture
def control(tmp_path, monkeypatch):
    """MPS's stand-in on the PATH; call it with what goes wrong."""
    stand_in = ROOT / "tests/stand_ins/mps_control.py"
    program(tmp_path / mps.CONTROL, f'exec "{sys.executable}" "{stand_in}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return lambda fault: monkeypatch.setenv("MPS_STAND_IN", fault)
