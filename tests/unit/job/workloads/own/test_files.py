"""A user's own workload: found by name, measured like any other, its faults told in a line."""

import os

import pytest

from batchmark_job import job
from batchmark_job.command_line import main
from batchmark_job.errors import InputError
from batchmark_job.measuring import entry
from batchmark_job.result.document import MeasurementStatus, parse_document
from batchmark_job.suites import SUITES, find_suite
from batchmark_job.workloads.own.files import BUNDLED, find_workload
from tests import documented
from tests.stand_ins.workers import run_job_here

pytestmark = pytest.mark.usefixtures("short_turns", "workers_here")
EXAMPLE = BUNDLED / "softmax.py"
RANDOM = "torch.rand(size, dtype=dtype)"
GOOD = f"""
import torch
AXES = {{"size": (3, 5)}}
def set_up(dtype, size):
    return {RANDOM}
def step(numbers):
    return numbers * 2
def reference(numbers):
    return numbers * 2
"""


@pytest.fixture
def workers_here(monkeypatch):
    """As a job of its own processes takes longer, and says the same; so do inputs for a cache."""
    monkeypatch.setattr(job, "run_job", run_job_here)
    monkeypatch.setattr(entry, "MOST_INPUT_SETS", 2)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Put a file into a folder of own workloads."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("BATCHMARK_WORKLOADS", str(folder))

    def to_folder(text, name="mine.py"):
        (folder / name).write_text(text)
        return folder / name

    return to_folder


@pytest.fixture
def run(tmp_path):
    """Gives the document of a job that ends with this code."""
    output = tmp_path / "result.json"
    limits = ("--samples", "10", "--max-seconds", "0.05", "--threads", "1", "--no-ceilings")
    place = ("--device", "cpu", "--output", str(output))

    def runs(*arguments, code=0):
        assert main(["run", *arguments, *limits, *place]) == code
        return parse_document(output.read_bytes())

    return runs


@pytest.fixture
def rows(write, run):
    """Gives the rows of a job that measures a workload of this text."""

    def measured(text, *arguments, code=0):
        write(text)
        return run("--workload", "mine", *arguments, code=code).measurements

    return measured


def test_the_documented_example_is_short_and_runs(run):
    assert len(EXAMPLE.read_text().splitlines()) <= 30
    measured = run("--workload", "softmax", "--axis", "rows=50,60").measurements
    for row, count in zip(measured, (50, 60), strict=True):
        assert row.parameters == {"rows": count, "columns": 1000}
        assert row.status in {MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED}
        assert row.implementation.name == "own code"
        assert len(row.implementation.version) == 12
        assert 0 < row.correctness.relative_error < 1e-6
        assert row.flops is None
        assert row.bytes_moved == 2 * count * 1000 * 4


NUMPY_OUTPUT = "numbers[order] * 2"
BY_NUMPY = """
import numpy as np
AXES = {"size": (3, 5)}
def set_up(dtype, size):
    return np.random.rand(size), np.arange(size)
def step_cpu(numbers, order):
    assert type(numbers) is np.ndarray and numbers.dtype == np.float32 and order.dtype == np.int64
    return numbers[order] * 2
def step_cuda(numbers, order):
    return numbers[order] * 2
def reference(numbers, order):
    return numbers[order] * 2
"""


@pytest.mark.parametrize("output", [NUMPY_OUTPUT, "numbers.sum()"], ids=["array", "scalar"])
def test_the_cpu_s_code_may_be_numpy_s_and_the_gpu_s_torch_s(output, write, rows):
    (row, _) = rows(BY_NUMPY.replace(NUMPY_OUTPUT, output), "--axis", "size=3,5")
    assert row.implementation.name == "own NumPy code"
    assert row.correctness.relative_error < 1e-6
    workload = find_workload("mine")
    assert [each.name for each in workload.implementations_for("cuda")] == ["own code"]
    assert [each.name for each in workload.implementations_for("cpu")] == ["own NumPy code"]
    row, *_ = rows(BY_NUMPY.replace("def step_cuda", "def step"))  # for both: rivals on the CPU
    assert {trial.implementation.name for trial in row.trials} == {"own code", "own NumPy code"}
    write(BY_NUMPY.replace("def step_cpu", "def another"))
    assert not find_workload("mine").implementations_for("cpu")


@pytest.mark.filterwarnings("ignore:__array_wrap__")  # NumPy's, of what is told
@pytest.mark.parametrize(
    ("step", "reference", "told"),
    [
        ("np.exp(numbers)", "np.exp(numbers)", True),
        ("torch.from_numpy(np.exp(numbers.numpy()))[:3]", "np.exp(numbers)[:3]", True),
        ("torch.exp(numbers)", "np.exp(numbers)", False),
        ("numbers[1:]", "numbers[1:]", False),
    ],
)
def test_numpy_code_in_step_is_told(step, reference, told, rows, capsys):
    text = GOOD.replace("numbers * 2", step, 1).replace("numbers * 2", reference)
    row, *_ = rows(f"import numpy as np\n{text}")
    remark = "step() used NumPy, not torch. NumPy code for the CPU belongs in step_cpu()"
    assert str(row.reason).endswith(remark) == told
    out = capsys.readouterr().out
    assert (f"1 of 1 row {row.status}: {row.reason}\n" in out) == bool(row.reason)


def test_the_documented_template_is_a_workload_that_runs(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made, alone, suite = documented.the_block("mkdir ~/mine && .venv/bin/batchmark-job template")
    documented.typed(made, tmp_path, os.environ, NAME="mine_too")
    for command in (alone, suite):
        name, path = command.split(" ", 1)[0].split("=")
        monkeypatch.setenv(name, path.replace("~", str(tmp_path)))
        _, *given = documented.arguments(command.replace("NAME", "mine_too"))
        assert all(row.correctness for row in run(*given).measurements)


def test_suite_own_takes_the_sizes_and_dtypes_of_the_files(write):
    write(GOOD + 'DTYPES = ("float32", "float64")\n')
    points = [point for point in find_suite("own").points() if point.workload == "mine"]
    assert [(dict(point.parameters), point.dtype) for point in points] == [
        ({"size": size}, dtype) for size in (3, 5) for dtype in ("float32", "float64")
    ]
    assert {point.workload for point in find_suite("own").points()} == {"mine"}
    assert {point.dtype for point in find_suite("own").points(["float64"])} == {"float64"}


def test_everything_optional_is_used(rows):
    text = (
        GOOD.replace("numbers * 2", "numbers.add_(1)", 1).replace("numbers * 2", "numbers + 1")
        + "NEEDS_GRADIENTS = True\nREPEATABLE = False\nTOLERANCE = 0.25\n"
        + "def flops(size):\n    return size\n"
        + "def elements_moved(size):\n    return 3 * size\n"
        + "def elements_held(size):\n    return 10**15 if size > 4 else 100\n"
    )
    row, too_large = rows(text, "--axis", "size=3,5")
    assert (row.flops, row.bytes_moved, row.correctness.tolerance) == (3, 36, 0.25)
    assert too_large.status is MeasurementStatus.SKIPPED
    assert "of host memory" in str(too_large.reason)
    workload = find_workload("mine")
    assert workload.needs_gradients
    assert not workload.repeatable


TENSORS = "(step receives torch tensors; NumPy code for the CPU belongs in step_cpu())"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("import torch", "import no_such_module", "(mine.py, line 2) (install it where the job r"),
        ("numbers * 2", "numbers * 2.001", "raise the limit in the file, for example TOLERANCE"),
        ("numbers * 2", "numbers / 0", "wrong result: it contains inf"),
        ("numbers * 2", "[1]", "TypeError: step() returned a list; return one torch tensor. NumPy"),
        ("numbers * 2", "numbers[1:]", "step returned shape (2,), but reference() returned (3,)"),
        ("numbers * 2", "no_such_name", "name 'no_such_name' is not defined (mine.py, line 7)"),
        ("rand(size, dtype=dtype)", "no_such()", "has no attribute 'no_such' (mine.py, line 5)"),
        (
            "return numbers * 2",
            "return helper(numbers)\ndef helper(numbers):\n    return numbers.astype(int)",
            f"'astype' (mine.py, line 9) {TENSORS}",
        ),
        ("numbers * 2", "numbers + None", f"(mine.py, line 7) {TENSORS}"),
        (RANDOM, "[1, 2]", "set_up() must return one or more torch tensors in host memory"),
        (RANDOM, f"({RANDOM}, size)", f"as {RANDOM}; it returned int; pass a number as an arr"),
        (
            RANDOM,
            "__import__('numpy').ones(size).astype(dtype)",
            "as a data type (mine.py, line 5) (dtype is a torch dtype: don't pass it to NumPy",
        ),
        ("numbers * 2", "numbers.mul_(2)", "copy the inputs, or set REPEATABLE = False"),
    ],
)
def test_what_goes_wrong_fails_the_row_alone(old, new, reason, rows):
    (row,) = rows(GOOD.replace(old, new, 1), code=1)
    assert row.status is MeasurementStatus.FAILED
    assert reason in str(row.reason)


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("np.histogram(numbers)", "a tuple"),
        ("None", "None"),
        ("list(numbers)", "a list"),
        ("numbers.sum().item()", "a float"),
    ],
)
def test_step_cpu_gives_one_array(output, kind, rows):
    row, *_ = rows(BY_NUMPY.replace(NUMPY_OUTPUT, output, 1), code=1)
    told = f"TypeError: step_cpu() returned {kind}; return one NumPy array"
    made_by = ", for example by np.asarray()" if kind in {"a list", "a float"} else ""
    assert str(row.reason).endswith(told + made_by)


MADE_AS = "it must be a tuple, such as DTYPES = ("
A_NUMBER = "it must be a number greater than 0"
WRONG_LINES = [
    ('DTYPES = ("float31",)', "DTYPES contains the unknown dtype 'float31'; known: f"),
    ("DTYPES = 5", f"DTYPES is 5; {MADE_AS}"),
    ("DTYPES = ()", f"DTYPES is (); {MADE_AS}"),
    ('DTYPES = "float32"', f"DTYPES is 'float32'; {MADE_AS}"),
    ('DTYPES = (["float32"], 1)', "DTYPES contains the unknown dtype ['float32'];"),
    ("TOLERANCE = 0", f"TOLERANCE is 0; {A_NUMBER}, such as 1e-4"),
    ('TOLERANCE = "1e-4"', f"TOLERANCE is '1e-4'; {A_NUMBER}"),
    ("TOLERANCE = True", f"TOLERANCE is True; {A_NUMBER}"),
    ("TOLERANCE = 1e999", f"TOLERANCE is inf; {A_NUMBER}"),
    ("REPEATABLE = 0", "REPEATABLE is 0; it must be True or False"),
    ('NEEDS_GRADIENTS = "no"', "NEEDS_GRADIENTS is 'no'; it must be True or False"),
    ("def flops(rows): return 1", "flops() takes the arguments (rows) instead of (size)"),
]
WRONG_CHANGES = [
    ("step", "stepp", "step() is missing; define step(*inputs), step_cpu(*arrays) or step_cuda(*t"),
    ("AXES", "SIZES", "AXES is missing; define it, for example as AXES = {"),
    ("(3, 5)", "(0,)", "AXES maps size to (0,); use whole numbers from 1 to "),
    ("(3, 5)", "3", "AXES maps size to 3; use a tuple such as (1000,)"),
    ("(3, 5)", "range(3)", "AXES on line 3 is not a literal; write out its value"),
    ('{"size": (3, 5)}', '{["a"]: (3, 5)}', "AXES on line 3 is not a literal"),
    ("dtype, size", "size", "set_up() takes the arguments (size) instead of (dtype, size)"),
    ("set_up", "setup", "(there is setup(): rename it?)"),
    ("def step", "def steps", "(there is steps(): rename it?)"),
]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def step(:", "it is not valid Python: "),
        *((f"{GOOD}{line}", problem) for line, problem in WRONG_LINES),
        *((GOOD.replace(old, new), problem) for old, new, problem in WRONG_CHANGES),
    ],
)
def test_a_broken_file_gives_one_line(text, problem, write, capsys):
    path = write(text)
    for arguments in (["--workload", "mine"], ["--suite", "own"]):
        assert main(["run", *arguments, "--output", f"{path}.json"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"batchmark-job: error: your workload {path} can't be used: ")
        assert problem in line


def test_annotated_constants_count_and_a_dataclass_with_postponed_annotations_works(rows):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += GOOD.replace("AXES =", "AXES: dict =") + "TOLERANCE: float = 0.5\nDTYPES: tuple\n"
    row, *_ = rows(text + "@dataclass\nclass Model:\n    width: int = 1\n")
    assert row.status in {"measured", "unsettled"}
    workload = find_workload("mine")
    assert [(axis.name, axis.default) for axis in workload.axes] == [("size", 3)]
    assert workload.tolerance("float32") == 0.5


def test_a_file_runs_once_in_a_process_until_it_is_changed(write, tmp_path):
    log = tmp_path / "log"
    write(GOOD + f"with open({str(log)!r}, 'a') as log:\n    print('ran', file=log)\n")
    for size in (3, 4, 5):
        find_workload("mine").make_inputs({"size": size}, "float32", 0)
    assert log.read_text() == "ran\n"
    write(GOOD)
    before = find_workload("mine")
    assert find_workload("mine") is before
    write(GOOD + "REPEATABLE = False\n")
    assert not find_workload("mine").repeatable
    assert before.repeatable


@pytest.mark.parametrize(
    ("name", "result"),
    [("flops", "-size"), ("elements_moved", "float('nan')"), ("elements_held", "'many'")],
)
def test_a_count_that_is_none_fails_its_rows(name, result, rows):
    text = GOOD + f"def {name}(size):\n    return {result} if size == 3 else size * 1.5\n"
    failed, measured = rows(text, "--axis", "size=3,5", code=1)
    assert failed.status is MeasurementStatus.FAILED
    assert f"ValueError: {name}() returned " in str(failed.reason)
    assert "return 0 or a positive number" in str(failed.reason)
    assert measured.correctness is not None


def test_all_problems_of_all_files_are_told_at_once(write):
    write("x = 1")
    with pytest.raises(InputError) as raised:
        find_workload("mine")
    for name in ("AXES", "set_up()", "step()", "reference()"):
        assert f"{name} is missing" in str(raised.value)
    paths = [write("def step(:", name) for name in ("one.py", "two.py")]
    folder = write(GOOD).with_name("folder")
    folder.with_suffix(".py").mkdir()
    with pytest.raises(InputError) as raised:
        find_suite("own")
    for path in paths:
        assert f"your workload {path} can't be used: " in str(raised.value)
    assert f"{folder}.py can't be used: it can't be read: Is a directory" in str(raised.value)


def test_a_broken_file_breaks_nothing_else(write, capsys):
    broken = write("def step(:")
    write(GOOD, "other.py")
    assert find_workload("other").name == "other"
    assert all(suite.points() for suite in SUITES.values())
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "workload other: " in out
    assert f"workload mine: your workload {broken} can't be used: " in out
    assert "(mine.py, line 1)" in out


def test_a_name_that_is_taken_or_that_no_option_can_hold_is_refused(write):
    given = ("--axis", "size=2", "--output", f"{write(GOOD, 'matmul.py')}.json")
    assert main(["run", "--workload", "matmul", *given]) == 2
    with pytest.raises(InputError, match="matmul is a built-in workload; rename the file"):
        find_suite("own")
    assert find_workload("matmul").summary == "product of two size x size matrices"
    write(GOOD, "My-Work.py")
    allowed = "its name can only contain a-z, 0-9 and _, and must start with a letter"
    with pytest.raises(InputError, match=allowed):
        find_workload("My-Work")


def test_a_folder_that_is_not_there_is_told_and_an_empty_one_named_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("BATCHMARK_WORKLOADS", "/no/such/folder")
    with pytest.raises(InputError, match="BATCHMARK_WORKLOADS is '/no/such/folder', which is no"):
        find_suite("own")
    monkeypatch.setenv("BATCHMARK_WORKLOADS", str(tmp_path))
    with pytest.raises(InputError) as raised:
        find_suite("own")
    assert str(raised.value) == f"suite own is empty: add a file NAME.py to {tmp_path}"


def test_an_unknown_name_shows_own_ones_too(write):
    write(GOOD)
    for name, said in {"nope": "", "miine": r" \(did you mean mine\?\)"}.items():
        message = rf"unknown workload '{name}'{said}; known: matmul, .*mine"
        with pytest.raises(InputError, match=message):
            find_workload(name)


def test_where_no_row_has_figures_the_machine_s_rates_are_not_measured(write, tmp_path):
    write(GOOD.replace("numbers * 2", "no_such_name"))
    output = tmp_path / "result.json"
    assert main(["run", "--workload", "mine", "--device", "cpu", "--output", str(output)]) == 1
    assert parse_document(output.read_bytes()).ceilings == ()
