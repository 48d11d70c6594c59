"""`make try-job`: what it starts, what it says first, and what it adds to a failure."""

import re
from unittest.mock import Mock

import pytest

from laptop.errors import LaptopError
from laptop.own_jobs import try_job
from laptop.own_jobs.versions import Version

JOB = {
    "command": ["python", "convert.py", "Ref::size"],
    "image": "converter:3",
    "images": None,
    "axis": {"parameter": "size", "sizes": [1, 2, 4, 8]},
    "targets": ["g5.xlarge", "c6i.2xlarge", "c7i.2xlarge"],
    "vcpus": 1,
    "memory_mib": None,
    "gpus": None,
    "output": None,
    "output_sha256": None,
    "check": "true",
    "shell": True,
    "commit": None,
    "branch": "main",
    "label": None,
}


def unread(_):
    raise AssertionError("Terraform reads for seconds")


@pytest.fixture
def ran(monkeypatch):
    """Runs that were asked for, with the options of their stacks."""
    asked = []
    monkeypatch.setattr(try_job, "read_own_jobs", lambda _: {"convert": JOB, "other": JOB})
    monkeypatch.setattr(
        try_job, "run_once", lambda *given, **options: asked.append((*given[:3], options))
    )
    return asked


@pytest.fixture
def has_engine(monkeypatch):
    monkeypatch.setattr(try_job, "require_engine", lambda: None)


@pytest.fixture
def tries(tmp_path, monkeypatch, ran):
    """Tries jobs of a file in a folder, the only one or of two, with these changes."""

    def tried(name="convert", repeats=3, *, only=None, engine=False, **more):
        if only is not None:
            monkeypatch.setattr(try_job, "read_own_jobs", lambda _: {"convert": JOB | only})
        file = tmp_path / "job.tfvars"
        try_job.try_job(file, name, repeats, tmp_path / "try", engine=engine, **more)
        return ran[-1]

    return tried


@pytest.fixture
def refused(tries, ran):
    """What is said where nothing starts."""

    def said(**options):
        with pytest.raises(LaptopError) as error:
            tries(**options)
        assert ran == []
        return str(error.value)

    return said


def test_one_job_of_the_file_runs_in_the_files_folder(tmp_path, tries, capsys):
    folder, dag_id, conf, options = tries()
    assert folder == tmp_path / "try"
    assert options == {
        "runs": 1,
        "after": None,
        "more": "",
        "own_jobs": {"convert": JOB | {"targets": [], "vcpus": None}},
        "jobs_file": tmp_path / "job.tfvars",
        "engine": False,
    }
    assert (dag_id, conf) == (
        "own_job_benchmark",
        {
            "job": "convert",
            "targets": ["c5.2xlarge", "g4dn.xlarge"],
            "repeats": 3,
            "max_cost_usd": None,
        },
    )
    said = capsys.readouterr().out
    assert "own job convert: 2 targets x 4 sizes x 3 repeats = 24 jobs, plus one to" in said
    assert "own job convert: targets, vcpus: used only on AWS; here each job gets all" in said
    tries(only={"axis": None})
    assert "2 targets x 3 repeats = 6 jobs, plus one to start each" in capsys.readouterr().out


def test_it_runs_on_one_target_alone_names_its_commit_and_is_repeated(tmp_path, tries, capsys):
    *_, conf, options = tries(target="c5.2xlarge", commit="3f2a91c", watch="5")
    assert (conf["targets"], conf["commit"]) == (["c5.2xlarge"], "3f2a91c")
    trend = tmp_path / "try" / "trends.html"
    assert (options["runs"], options["more"]) == (5, f"trend:  {trend}\n")
    said = capsys.readouterr().out
    assert "own job convert: 1 target x 4 sizes x 3 repeats = 12 jobs" in said
    assert "WATCH=5: 5 runs of these jobs, about 22 minutes for the thumbnails example; for" in said


def test_two_versions_are_the_sides_of_one_run_each_in_its_own_folder(tmp_path, ran, capsys):
    new, baseline = (Version(tmp_path / name / "job.tfvars") for name in ("new", "old"))
    new = new._replace(commit="3f2a91c")
    try_job.compare_versions(new, baseline, "convert", 6, tmp_path / "try", engine=False)
    ((_, dag_id, conf, options),) = ran
    assert dag_id == "job_comparison"
    judged = {"check": "true", "shell": True, "branch": "main"}
    assert conf == {
        "name": "convert",
        "sides": [
            {
                "name": side,
                "job_queue": "batchmark-c5-2xlarge",
                "job_definition": f"batchmark_job_{side}_c5-2xlarge",
                **(judged | commit),
            }
            for side, commit in (("new", {"commit": "3f2a91c"}), ("baseline", {}))
        ],
        "parameter": "size",
        "sizes": [1, 2, 4, 8],
        "repeats": 6,
        "max_cost_usd": None,
    }
    assert options["definition_dirs"] == {
        "batchmark_job_new_c5-2xlarge": tmp_path / "new",
        "batchmark_job_baseline_c5-2xlarge": tmp_path / "old",
    }
    assert options["own_jobs"] == dict.fromkeys(("new", "baseline"), try_job.for_laptop(JOB))
    said = capsys.readouterr().out
    assert "own job convert: 2 versions x 4 sizes x 6 repeats = 48 jobs" in said


def test_versions_along_different_axes_start_nothing(tmp_path, ran, monkeypatch):
    of_file = {"new": JOB, "old": JOB | {"axis": None}}
    monkeypatch.setattr(try_job, "read_own_jobs", lambda file: {"convert": of_file[file.stem]})
    new, baseline = (Version(tmp_path / f"{name}.tfvars") for name in of_file)
    with pytest.raises(LaptopError, match=r"is size, but in .*/old\.tfvars it is not set: compare"):
        try_job.compare_versions(new, baseline, None, 6, tmp_path / "try", engine=False)
    assert ran == []


@pytest.mark.parametrize("watch", ["0", "x", "-1", "2.5", " ", "\u00b2"])
def test_what_is_no_number_of_runs_starts_nothing(refused, watch):
    assert refused(watch=watch).startswith(f"WATCH is {watch!r}: it must be a number of runs")


@pytest.mark.parametrize("engine", [True, False])
def test_what_needs_no_file_is_refused_before_it_is_read(tmp_path, refused, monkeypatch, engine):
    monkeypatch.setattr(try_job, "read_own_jobs", unread)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert "repeats 0 is out of range; use 1 to " in refused(repeats=0, engine=engine)
    (tmp_path / "demo").mkdir()
    with monkeypatch.context() as running:
        running.setattr("laptop.session.BUILD", tmp_path)
        running.setattr("laptop.session.processes_of", lambda path: path.name == "demo")
        assert "`make demo` is running in this clone" in refused(engine=engine)
    if engine:
        (line,) = refused(engine=True).splitlines()
        assert line.startswith("ENGINE=yes requires a Docker engine, but none")


@pytest.mark.usefixtures("has_engine")
def test_the_image_brings_the_command_which_must_be_here_without_an_engine(tries, refused):
    assert "nowhere-to-be-found" in refused(only={"command": ["nowhere-to-be-found"]})
    *_, options = tries(only={"command": []}, engine=True)
    assert options["engine"] is True


def test_an_output_that_is_there_already_starts_nothing(tmp_path, tries, refused):
    (tmp_path / "out.json").touch()
    assert re.search(
        r"out\.json already exists, .* pass: remove the", refused(only={"output": "out.json"})
    )
    (tmp_path / "out.json").unlink()
    assert tries()


@pytest.mark.usefixtures("has_engine")
def test_a_folder_too_large_for_copies_starts_nothing(tmp_path, tries, refused, monkeypatch):
    monkeypatch.setattr("laptop.own_jobs.jobs_file.MOST_FOLDER_BYTES", 2**20)
    for folder in ("data", ".venv"):
        (tmp_path / folder).mkdir()
        with (tmp_path / folder / "set").open("wb") as file:
            file.truncate(2**20 + 2**19)
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    with monkeypatch.context() as early:
        early.setattr(try_job, "read_own_jobs", unread)
        assert re.search(f"{tmp_path} contains 1.5 MiB, .* most 1.0 MiB: move", refused())
    assert tries(engine=True)


@pytest.mark.parametrize(
    ("images", "builds"),
    [
        ({"image": "converter:3", "images": None}, ["converter:3"]),
        ({"image": None, "images": {"cpu": "c:cpu", "cuda": "c:gpu"}}, ["c:cpu", "c:gpu"]),
        ({"image": None, "images": {"cpu": "c:both", "cuda": "c:both"}}, ["c:both"]),
    ],
)
@pytest.mark.usefixtures("has_engine")
def test_images_that_are_nowhere_are_to_be_built(tries, monkeypatch, images, builds):
    missing = LaptopError("DAG run x failed: CannotPullContainerError: no such image")
    monkeypatch.setattr(try_job, "run_once", Mock(side_effect=missing))
    with pytest.raises(
        LaptopError, match="no such image\nbuild the missing images first:"
    ) as raised:
        tries(only=images, engine=True)
    lines = str(raised.value).splitlines()
    assert lines[2:] == [f"    docker build -t {image} FOLDER" for image in builds]
    monkeypatch.setattr(try_job, "run_once", Mock(side_effect=LaptopError("DAG run x failed")))
    with pytest.raises(LaptopError, match=r"^DAG run x failed$"):
        tries(engine=True)
