"""The example of an own job: what it makes, tells and checks."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import hcl2
import numpy as np
import pytest
from PIL import Image

from batchmark.core.own_jobs import JobAxis
from batchmark.runs.own_jobs.wrapper import CHECK, command
from batchmark_job.result.metric import FILE_VARIABLE, PREFIX, parse_metric_line
from tests.builders.files import finished
from tests.paths import ROOT
from tests.stand_ins.wrapped_commands import Done

FOLDER = ROOT / "job_container" / "own_jobs" / "thumbnails"
PICTURES = 11  # a batch and three


@pytest.fixture(scope="module")
def convert():
    spec = spec_from_file_location("convert", FOLDER / "convert.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(tmp_path):
    """Runs the program as a job does; its files go below the test's folder."""

    def runs(*words, **variables):
        basis = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "AWS_BATCH_JOB_ID": "one"}
        return finished(sys.executable, FOLDER / "convert.py", *words, env=basis | variables)

    return runs


def made(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.jpg")}


def test_a_seed_gives_the_same_thumbnails_and_another_seed_others(convert, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        assert convert.convert(tmp_path / name, PICTURES, 256, seed, convert.by_pillow) > 0
    first, again, other = (made(tmp_path / name) for name in "abc")
    assert len(first) == PICTURES
    assert first == again
    assert not set(first.values()) & set(other.values())


@pytest.mark.parametrize("size", [128, 256, 1536])
def test_thumbnails_of_each_size_pass_the_check(convert, tmp_path, size):
    (tmp_path / "t").mkdir()
    convert.convert(tmp_path / "t", 2, size, 1, convert.by_pillow)
    with Image.open(tmp_path / "t" / "000000.jpg") as thumbnail:
        assert thumbnail.size == (128, 128)
    assert convert.check(tmp_path / "t", 2, 1) == 0
    assert not (tmp_path / "t").exists()


def test_both_ways_shrink_alike(convert):
    pictures = np.stack([convert.picture(1, number, 512) for number in range(3)])
    one, other = convert.by_pillow(pictures), convert.by_torch(pictures, "cpu")
    assert one.shape == other.shape == (3, 128, 128, 3)
    assert one.dtype == other.dtype == np.uint8
    assert np.abs(one.astype(int) - other).max() <= 2


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        lambda path: path.write_bytes(path.read_bytes()[:300]),
        lambda path: path.with_name("000004.jpg").replace(path),
        Image.new("RGB", (64, 64)).save,
    ],
    ids=["one lost", "one cut off", "another's", "one too small"],
)
def test_the_check_sees_what_is_wrong(convert, tmp_path, capsys, spoil):
    folder = tmp_path / "thumbnails"
    folder.mkdir()
    convert.convert(folder, 5, 256, 1, convert.by_pillow)
    spoil(folder / "000003.jpg")
    assert convert.check(folder, 5, 1) == 1
    assert "thumbnails are wrong, starting with number 3" in capsys.readouterr().err


def test_it_tells_one_metric_in_the_file_and_one_on_standard_output(run, tmp_path):
    words = ("--size", "256", "--pictures", "9")
    done = run(*words, **{FILE_VARIABLE: str(tmp_path / "metrics")})
    assert done.returncode == 0, done.stderr
    (line,) = (tmp_path / "metrics").read_text().splitlines()
    throughput = parse_metric_line(line)
    assert (throughput.metric, throughput.unit) == ("throughput", "images/s")
    assert throughput.higher_is_better
    (printed,) = [line for line in done.stdout.splitlines() if line.startswith(PREFIX)]
    encoded = parse_metric_line(printed.removeprefix(PREFIX))
    assert (encoded.metric, encoded.unit, encoded.higher_is_better) == ("encoded", "MB", False)
    size = sum(map(len, made(tmp_path / "thumbnails-one").values()))
    assert encoded.value == size / 1e6
    assert run("--check", "--pictures", "9").returncode == 0
    assert run("--check", "--pictures", "9").returncode == 1


@pytest.mark.parametrize("size", ["0", "64", "1001", "-256"])
def test_a_size_without_whole_tiles_is_refused(run, size):
    done = run("--size", size)
    assert done.returncode == 2
    assert done.stderr == f"--size is {size}, but it must be a multiple of 8 and at least 128\n"


def test_its_inputs_of_terraform_are_a_job_with_four_sizes_that_runs_as_it_does_in_batch(tmp_path):
    code = (FOLDER / "job.tfvars").read_text()
    options = hcl2.SerializationOptions(strip_string_quotes=True)
    job = hcl2.loads(code, serialization_options=options)["own_jobs"]["thumbnails"]
    axis = JobAxis.model_validate(job["axis"])
    assert len(axis.sizes) == 4
    words = [word.replace(f"Ref::{axis.parameter}", str(axis.sizes[0])) for word in job["command"]]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "TMPDIR": str(tmp_path), CHECK: f"{job['check']} --pictures 8"}
    done = finished(*command([*words, "--pictures", "8"]), cwd=FOLDER, env=env)
    assert done.returncode == 0, done.stderr
    assert Done(done.returncode, done.stdout.encode()).facts["check"] == "0"
    assert list(tmp_path.iterdir()) == []
