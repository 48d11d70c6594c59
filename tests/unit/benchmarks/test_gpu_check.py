"""The check of a GPU: its packages, its steps and its summary, without a GPU."""

import importlib
import json
import sys
import zipfile

import pytest

from batchmark_job.result.document import parse_document
from benchmarks.gpu_check import packages, summary
from benchmarks.gpu_check.steps import TESTS, OtherDeviceError, State, Step, log_of, run, steps_of
from tests.builders.runs import build_job, build_row
from tests.paths import ROOT

DEVICE = {
    "gpu": "a GPU",
    "gpus": 1,
    "capability": "9.0",
    "memory_bytes": 2**30,
    "driver": "580",
    "cuda": "13.0",
    "torch": "2.13.0",
    "built_for": ["sm_90"],
    "python": "3.12",
    "cpu": "a CPU",
    "cpu_threads": 2,
    "kernel": "6",
    "code": "abc",
    "packages": {"numpy": "2"},
}


def step(name, program, *, limit=60, document=None):
    return Step(name, "a test's", ("-c", program), limit, document)


@pytest.fixture
def state(tmp_path):
    return State(tmp_path, DEVICE)


@pytest.fixture
def path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    yield
    sys.modules.pop("carried_by_hand", None)


@pytest.fixture
def wheels(tmp_path):
    """One wheel, of a package that is nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "carried_by_hand-1.dist-info"
    with zipfile.ZipFile(folder / "carried_by_hand-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("carried_by_hand.py", "HERE = True\n")
        metadata = "Metadata-Version: 2.1\nName: carried-by-hand\nVersion: 1\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tags)
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.mark.usefixtures("path")
def test_a_missing_package_comes_from_the_wheels_or_is_named(monkeypatch, tmp_path, wheels):
    monkeypatch.setattr(packages, "CARRIED", {"carried_by_hand": "carried-by-hand"})
    told = r"lacks carried_by_hand, and .* contains no wheels for them: .*gpu-wheels FOR=3"
    with pytest.raises(packages.MissingError, match=told):
        packages.bring(tmp_path / "none", tmp_path / "site")
    packages.bring(wheels, tmp_path / "site")
    assert importlib.import_module("carried_by_hand").HERE
    assert packages.os.environ["PYTHONPATH"].startswith(str(tmp_path / "site"))
    monkeypatch.setattr(packages, "OF_THE_IMAGE", ("no_torch_here",))
    with pytest.raises(packages.MissingError, match="lacks no_torch_here: use an image"):
        packages.bring(wheels, tmp_path / "site")


def test_it_takes_eight_minutes_at_most_for_every_test_that_wants_a_device(tmp_path):
    steps = steps_of(tmp_path, small=False)
    assert sum(step.limit_seconds for step in steps) <= 8 * 60
    assert [step.name for step in steps][:3] == ["smoke-cuda", "rivals", "tests"]
    files = (ROOT / "tests/unit/job").rglob("test_*.py")
    wanting = [path for path in files if 'usefixtures("cuda"' in path.read_text()]
    assert {path.relative_to(ROOT).as_posix() for path in wanting} <= {*TESTS}
    assert all((ROOT / name).exists() for name in TESTS)


def test_a_step_that_failed_or_took_too_long_does_not_end_the_check(tmp_path, state):
    steps = [
        step("fails", "print('batchmark-job: warning: so it is'); raise SystemExit(3)"),
        step("hangs", "import time; print('so far', flush=True); time.sleep(60)", limit=1),
        step("passes", "print('all well')"),
    ]
    assert list(run(steps, tmp_path, state)) == steps
    assert [done["late"] for done in state.done.values()] == [False, True, False]
    assert (state.done["fails"]["rc"], state.done["passes"]["rc"]) == (3, 0)
    assert state.done["hangs"]["rc"] != 0
    text = summary.write(tmp_path, state, steps)
    assert "fails           exit 3" in text
    assert "hangs           stopped after 1 s" in text
    assert "problems in step fails:\nbatchmark-job: warning: so it is" in text
    assert (tmp_path / "summary.txt").read_text() == text


def test_a_folder_keeps_what_was_done_of_one_device_and_one_code(tmp_path, state, capsys):
    count = tmp_path / "count"
    counting = step("counts", f"open({str(count)!r}, 'a').write('once')")
    for _ in range(2):
        list(run([counting], tmp_path, State(tmp_path, DEVICE)))
    assert count.read_text() == "once"
    assert capsys.readouterr().out.splitlines()[-1] == "counts: already done"
    for change in ({"gpu": "another GPU"}, {"code": "def"}):
        with pytest.raises(OtherDeviceError, match="contains a check of a GPU with job code abc"):
            State(tmp_path, DEVICE | change)


def test_a_long_summary_is_cut_at_its_end(tmp_path, state):
    talkative = step("rivals", "print(('matmul ' * 30 + chr(10)) * 400)")
    failing = step("fails", "print('FAILED a test\\n' * 300); raise SystemExit(1)")
    steps = list(run([failing, talkative], tmp_path, state))
    text = summary.write(tmp_path, state, steps)
    assert summary.MOST_CHARACTERS - 400 < len(text) <= summary.MOST_CHARACTERS
    assert text.endswith("(truncated; the rest is in the logs and documents)\n")
    assert "... and 260 more lines" in text


def test_rows_stand_beside_those_of_the_cpu(tmp_path, state):
    times = {"smoke-cuda": 0.001, "smoke-cpu": 0.004}
    steps = [step(name, "", document=f"{name}.json") for name in times]
    for each in steps:
        job = build_job("here", [build_row([times[each.name]] * 20)])
        (tmp_path / f"{each.name}.json").write_text(job.document.to_json())
    text = summary.write(tmp_path, state, list(run(steps, tmp_path, state)))
    (row,) = (line for line in text.splitlines() if "cpu 4000.0" in line)
    assert "1000.0 ± 0.0 µs" in row
    assert "4.00×" in row
    assert log_of(steps[0], tmp_path).exists()
    cpu = build_job("here", [build_row([0.004] * 20, status="unsettled", reason="it drifts")])
    (tmp_path / "smoke-cpu.json").write_text(cpu.document.to_json())
    unsettled = summary.write(tmp_path, state, steps)
    assert "cpu 4000.0 ± 0.0 µs unsettled" in unsettled
    assert "×" not in unsettled.partition("medians:")[2]
    assert parse_document((tmp_path / "smoke-cpu.json").read_bytes()).measurements
    assert json.loads((tmp_path / "state.json").read_text())["device"] == DEVICE
