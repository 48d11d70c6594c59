"""Own jobs of a file: what is refused before anything starts, and how large their pool is."""

from unittest.mock import Mock

import pytest

from laptop.errors import LaptopError
from laptop.own_jobs import jobs_file
from laptop.stack import PROFILE
from tests.builders.files import program

JOB = {"command": ["python", "convert.py"], "vcpus": None, "memory_mib": None}


def test_own_jobs_are_those_that_terraform_reads_of_a_file_for_the_laptops_targets(
    tmp_path, monkeypatch
):
    terraform = Mock()
    evaluate = terraform.return_value.evaluate
    evaluate.return_value = {"convert": JOB}
    monkeypatch.setattr(jobs_file, "Terraform", terraform)
    monkeypatch.setattr(jobs_file, "init_one_at_a_time", lambda _: None)
    file = tmp_path / "job.tfvars"
    with pytest.raises(LaptopError, match=f"{file} does not exist: JOBS= must name"):
        jobs_file.read_own_jobs(file)
    with pytest.raises(LaptopError, match="does not exist"):
        jobs_file.read_own_jobs(tmp_path)
    evaluate.assert_not_called()
    file.touch()
    assert jobs_file.read_own_jobs(file) == {"convert": JOB}
    evaluate.assert_called_once_with(jobs_file.OWN_JOBS, [file], profile=PROFILE)
    evaluate.return_value = {}
    with pytest.raises(LaptopError, match=rf"{file} does not set own_jobs: see docs/own-jobs\.md"):
        jobs_file.read_own_jobs(file)


def test_the_only_job_needs_no_name_and_several_do(tmp_path):
    file = tmp_path / "job.tfvars"
    several = {"train": JOB, "convert": JOB}
    assert jobs_file.choose({"convert": JOB}, None, file) == "convert"
    assert jobs_file.choose(several, "train", file) == "train"
    with pytest.raises(
        LaptopError, match=r"defines 2 jobs \(convert, train\): choose one with JOB="
    ):
        jobs_file.choose(several, None, file)
    with pytest.raises(LaptopError, match="defines no job 'copy', only convert, train"):
        jobs_file.choose(several, "copy", file)


def test_on_the_laptop_a_job_runs_on_its_targets_with_all_that_they_have():
    asked = JOB | {"targets": ["g5.xlarge"], "vcpus": 1, "memory_mib": 10**6, "gpus": 8}
    here = jobs_file.for_laptop(asked)
    assert here == JOB | {"targets": [], "gpus": None}
    assert jobs_file.only_on_aws(asked) == ["targets", "vcpus", "memory_mib", "gpus"]
    assert jobs_file.only_on_aws(here) == []


@pytest.mark.parametrize(
    "word", ["python", "sh", "./convert.sh", "{folder}/convert.sh", "Ref::program"]
)
def test_a_program_that_is_here_may_start(tmp_path, word):
    program(tmp_path / "convert.sh", "")
    command = [word.format(folder=tmp_path), "Ref::size"]
    jobs_file.refuse_missing_program("convert", JOB | {"command": command}, tmp_path)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], "own job convert has no command, .* ENGINE=yes"),
        (None, "own job convert has no command"),
        (["nowhere-to-be-found"], "'nowhere-to-be-found', but there is no .* on the PATH"),
        (["./nowhere.sh"], r"runs './nowhere\.sh', but there is no program {folder}"),
        (["/app/convert"], "there is no program /app/convert: install it, or run its image"),
    ],
)
def test_a_program_that_is_not_here_is_named(tmp_path, command, said):
    with pytest.raises(LaptopError, match=said.format(folder=tmp_path)):
        jobs_file.refuse_missing_program("convert", JOB | {"command": command}, tmp_path)
