"""A workload that takes just as long as its file says, run by the real job in the real chain.

Its time is a wait, and its clock stands still for as long as a busy machine lets it wait longer:
one that runs other tests would hide 10 %, and let rows come out unsettled. To slow it down is to
change its code, as somebody would who commits a slower version.
"""

from contextlib import contextmanager

from tests.e2e.stacks import published_by
from tests.paths import ROOT

JOB = str(ROOT / "job_container")
SECONDS = 0.02
CODE = '''"""A nap."""

import time

AXES = {{"size": (1,)}}
clock, overslept = time.perf_counter, 0.0
time.perf_counter = lambda: clock() - overslept


def set_up(dtype, size):
    import torch

    return torch.zeros(size, dtype=dtype)


def step(zeros):
    global overslept
    began = clock()
    time.sleep({seconds!r})
    overslept += clock() - began - {seconds!r}
    return zeros + 1


def reference(zeros):
    return zeros + 1
'''
# The image's own workloads would be in the suite, too, and their noise in the test. It is the real
# job, whatever the stack's others are: only that measures well enough to find 10 %.
ONLY_OURS = (
    "import pathlib, runpy, sys; sys.path.insert(0, {job!r}); "
    "import batchmark_job.workloads.own.files as own; own.BUNDLED = pathlib.Path({folder!r}); "
    "runpy.run_module('batchmark_job', run_name='__main__')"
)


class Naps:
    """The suite `own` of one stack, made of naps."""

    def __init__(self, folder, *workloads):
        self._folder = folder
        folder.mkdir()
        self.last(SECONDS, *workloads)

    def last(self, seconds, *workloads):
        """Let later jobs take these naps, each so long."""
        for file in self._folder.glob("*.py"):
            file.unlink()
        for workload in workloads or ("nap",):
            (self._folder / f"{workload}.py").write_text(CODE.format(seconds=seconds))

    @contextmanager
    def everywhere(self, aws):
        """Let all targets run naps instead of the image's workloads."""
        batch = aws.client("batch")
        with published_by(aws) as published:
            for target in published.config["targets"].values():
                (definition,) = batch.describe_job_definitions(
                    jobDefinitions=[target["job_definition"]]
                )["jobDefinitions"]
                container = definition["containerProperties"]
                place = container["command"].index("batchmark_job")
                container["command"] = [
                    *("python", "-c", ONLY_OURS.format(job=JOB, folder=str(self._folder))),
                    *container["command"][place + 1 :],
                ]
                target["job_definition"] = batch.register_job_definition(
                    jobDefinitionName=f"nap-{definition['jobDefinitionName']}",
                    type="container",
                    parameters=definition["parameters"],
                    containerProperties=container,
                )["jobDefinitionArn"]
            published.write()
            yield
