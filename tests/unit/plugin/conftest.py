"""Collected runs, and reports of them; made once, as records are frozen."""

import pytest

from batchmark.core import intervals
from batchmark.history import store
from batchmark.report import charts
from batchmark.report.sharing import charts as sharing_charts
from batchmark_job.result.document import Device, MeasurementStatus
from tests.builders.reports import report_of
from tests.builders.runs import (
    CPU_MEDIANS,
    GPU_MEDIANS,
    LAPTOP_ENVIRONMENT,
    build_full_job,
    build_job,
    build_lost,
    build_row,
    build_rows,
    build_run,
    noisy,
)
from tests.stand_ins.file_reader import ReaderHere

MOST_KNOWN = 1000  # distributions take 32 kB each
# Files whose tests fork as the product does.
READ_BY_A_PROCESS = {"test_file_reader.py", "test_store.py", "test_history_files.py"}


@pytest.fixture(autouse=True)
def history_read_here(request, monkeypatch):
    if request.path.name not in READ_BY_A_PROCESS:
        monkeypatch.setattr(store, "FileReader", ReaderHere)


def once(function, key=repr):
    """What this returned for arguments of the same key."""
    known = {}

    def returned(*arguments):
        found = key(arguments)
        if found not in known:
            if len(known) == MOST_KNOWN:
                known.clear()
            known[found] = function(*arguments)
        return known[found]

    return returned


def distribution(arguments):
    (median,) = arguments
    return median.samples.tobytes(), repr(median._turns), median._seed


@pytest.fixture(autouse=True, scope="session")
def drawn_once():
    """Tests share their builders' samples: four of five draws, and of charts, would be repeated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals.Median, "draws", once(intervals.Median.draws, distribution))
        for module, name in ((charts, "draw"), (sharing_charts, "_draw")):
            patch.setattr(module, name, once(getattr(module, name)))
        yield


@pytest.fixture(scope="session")
def run_of_gpu():
    """Two repeats of a real GPU target against a CPU target, with a skipped and a lost job."""
    too_large = build_row(
        status=MeasurementStatus.SKIPPED,
        reason="needs 19.2 GiB, 15.1 GiB are free",
        parameters={"size": 40000},
    )
    jobs = []
    for repeat in (1, 2):
        gpu_rows = [
            *build_rows(GPU_MEDIANS, seed=repeat),
            build_row(noisy(6.1, seed=repeat), parameters={"size": 40000}),
        ]
        cpu_rows = [*build_rows(CPU_MEDIANS, seed=repeat + 10), too_large]
        jobs.append(build_job("g5.xlarge", gpu_rows, repeat=repeat, batch_seconds=95 + repeat))
        jobs.append(build_job("c5.2xlarge", cpu_rows, repeat=repeat, batch_seconds=203 + repeat))
    lost = [build_lost("c5.2xlarge", "Host EC2 (instance i-0f) terminated.", repeat=3)]
    return build_run(*jobs, lost=lost)


@pytest.fixture(scope="session")
def report_of_full():
    """As report_of_gpu, without losses, of jobs that say all they can, at three sizes and more."""
    run = build_run(
        *(
            build_full_job(target, build_rows(medians, seed=repeat + len(target)), repeat=repeat)
            for repeat in (1, 2, 3)
            for target, medians in (("g5.xlarge", GPU_MEDIANS), ("c5.2xlarge", CPU_MEDIANS))
        )
    )
    return report_of(run)


@pytest.fixture(scope="session")
def run_of_laptop():
    """One repeat on a laptop without a GPU: the GPU target fell back to the CPU."""
    medians = {key: value for key, value in CPU_MEDIANS.items() if value < 1}
    return build_run(
        build_job(
            "g4dn.xlarge",
            build_rows(medians, seed=3),
            suite="smoke",
            environment=LAPTOP_ENVIRONMENT,
            actual_device=Device.CPU,
        ),
        build_job(
            "c5.2xlarge", build_rows(medians, seed=4), suite="smoke", environment=LAPTOP_ENVIRONMENT
        ),
    )


@pytest.fixture(scope="session")
def report_of_gpu(run_of_gpu):
    return report_of(run_of_gpu)


@pytest.fixture(scope="session")
def report_of_laptop(run_of_laptop):
    return report_of(run_of_laptop)
