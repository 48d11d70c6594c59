"""`make try-job`: what it starts, what it says first, and what it adds to a failure."""

import pytest

from laptop.errors import LaptopError
from laptop.own_jobs import try_job

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


def test_one_job_of_the_file_runs_in_the_files_folder(tmp_path, ran, capsys):
    file = tmp_path / "mine" / "job.tfvars"
    try_job.try_job(file, "convert", 3, tmp_path / "try", engine=False)
    ((folder, dag_id, conf, options),) = ran
    assert folder == tmp_path / "try"
    assert options == {
        "runs": 1,
        "after": None,
        "more": "",
        "own_jobs": {"convert": JOB | {"targets": [], "vcpus": None}},
        "job_dir": tmp_path / "mine",
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


def test_it_runs_on_one_target_alone_and_names_its_commit(tmp_path, ran, capsys):
    file = tmp_path / "job.tfvars"
    only = {"target": "c5.2xlarge", "commit": "3f2a91c"}
    try_job.try_job(file, "convert", 3, tmp_path, engine=False, **only)
    ((*_, conf, _),) = ran
    assert (conf["targets"], conf["commit"]) == (["c5.2xlarge"], "3f2a91c")
    assert "own job convert: 1 target x 4 sizes x 3 repeats = 12 jobs" in capsys.readouterr().out


def test_it_runs_as_often_as_asked_and_says_before_how_long_that_may_take(tmp_path, ran, capsys):
    file = tmp_path / "job.tfvars"
    try_job.try_job(file, "convert", 3, tmp_path, engine=False, watch="5")
    ((*_, options),) = ran
    assert (options["runs"], options["more"]) == (5, f"trend:  {tmp_path / 'trends.html'}\n")
    said = capsys.readouterr().out
    assert "WATCH=5: 5 runs of these jobs, about 22 minutes for the thumbnails example; for" in said


@pytest.mark.parametrize("watch", ["0", "x", "-1", "2.5", " ", "\u00b2"])
def test_what_is_no_number_of_runs_starts_nothing(tmp_path, ran, watch):
    with pytest.raises(LaptopError) as refused:
        try_job.try_job(tmp_path / "job.tfvars", "convert", 3, tmp_path, engine=False, watch=watch)
    assert str(refused.value).startswith(f"WATCH is {watch!r}: it must be a number of runs")
    assert ran == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"axis": None}, "2 targets x 3 repeats = 6 jobs"),
        ({"targets": ["c5.2xlarge"]}, "2 targets x 4 sizes x 3 repeats = 24 jobs"),
    ],
)
def test_what_will_run_is_said_in_jobs(changes, said):
    assert try_job._announced("convert", JOB | changes, 3, 2) == (
        f"own job convert: {said}, plus one to start each target"
    )


@pytest.mark.parametrize("engine", [True, False])
def test_what_needs_no_file_is_refused_before_it_is_read(tmp_path, ran, monkeypatch, engine):
    monkeypatch.setattr(try_job, "read_own_jobs", unread)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    file = tmp_path / "job.tfvars"
    said = "repeats 0 is out of range; use 1 to "
    with pytest.raises(LaptopError, match=said):
        try_job.try_job(file, None, 0, tmp_path / "try", engine=engine)
    (tmp_path / "demo").mkdir()
    with monkeypatch.context() as running:
        running.setattr("laptop.session.BUILD", tmp_path)
        running.setattr("laptop.session.processes_of", lambda path: path.name == "demo")
        with pytest.raises(LaptopError, match="`make demo` is running in this clone"):
            try_job.try_job(file, None, 3, tmp_path / "try", engine=engine)
    if engine:
        with pytest.raises(LaptopError, match="ENGINE=yes requires a Docker engine"):
            try_job.try_job(file, None, 3, tmp_path / "try", engine=True)
    assert ran == []


def test_a_command_that_is_not_here_starts_nothing(tmp_path, ran, monkeypatch):
    missing = JOB | {"command": ["nowhere-to-be-found"]}
    monkeypatch.setattr(try_job, "read_own_jobs", lambda _: {"convert": missing})
    with pytest.raises(LaptopError, match="nowhere-to-be-found"):
        try_job.try_job(tmp_path / "job.tfvars", None, 3, tmp_path, engine=False)
    assert ran == []


def test_an_output_that_is_there_already_starts_nothing(tmp_path, ran, monkeypatch):
    given = JOB | {"output": "out.json"}
    monkeypatch.setattr(try_job, "read_own_jobs", lambda _: {"convert": given})
    (tmp_path / "out.json").touch()
    file = tmp_path / "job.tfvars"
    with pytest.raises(LaptopError, match=r"out\.json already exists, .* pass: remove the"):
        try_job.try_job(file, "convert", 3, tmp_path, engine=False)
    assert ran == []
    (tmp_path / "out.json").unlink()
    try_job.try_job(file, "convert", 3, tmp_path, engine=False)
    assert len(ran) == 1


def test_a_folder_too_large_for_copies_starts_nothing(tmp_path, ran, monkeypatch):
    monkeypatch.setattr("laptop.own_jobs.jobs_file.MOST_FOLDER_BYTES", 2**20)
    for folder in ("data", ".venv"):
        (tmp_path / folder).mkdir()
        with (tmp_path / folder / "set").open("wb") as file:
            file.truncate(2**20 + 2**19)
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    file = tmp_path / "job.tfvars"
    with monkeypatch.context() as early:
        early.setattr(try_job, "read_own_jobs", unread)
        with pytest.raises(
            LaptopError, match=f"{tmp_path} contains 1.5 MiB, .* most 1.0 MiB: move"
        ):
            try_job.try_job(file, "convert", 3, tmp_path, engine=False)
    assert ran == []
    monkeypatch.setattr(try_job, "require_engine", lambda: None)
    try_job.try_job(file, "convert", 3, tmp_path, engine=True)
    assert len(ran) == 1


def test_on_an_engine_the_image_brings_the_command(tmp_path, ran, monkeypatch):
    bare = JOB | {"command": []}
    monkeypatch.setattr(try_job, "read_own_jobs", lambda _: {"convert": bare})
    monkeypatch.setattr(try_job, "require_engine", lambda: None)
    try_job.try_job(tmp_path / "job.tfvars", None, 3, tmp_path, engine=True)
    ((*_, options),) = ran
    assert options["engine"] is True


@pytest.mark.parametrize(
    ("images", "builds"),
    [
        ({"image": "converter:3", "images": None}, ["converter:3"]),
        ({"image": None, "images": {"cpu": "c:cpu", "cuda": "c:gpu"}}, ["c:cpu", "c:gpu"]),
        ({"image": None, "images": {"cpu": "c:both", "cuda": "c:both"}}, ["c:both"]),
    ],
)
def test_images_that_are_nowhere_are_to_be_built(tmp_path, ran, monkeypatch, images, builds):
    def fail(*_, **__):
        raise LaptopError("DAG run x failed: CannotPullContainerError: no such image")

    monkeypatch.setattr(try_job, "read_own_jobs", lambda _: {"convert": JOB | images})
    monkeypatch.setattr(try_job, "require_engine", lambda: None)
    monkeypatch.setattr(try_job, "run_once", fail)
    with pytest.raises(
        LaptopError, match="no such image\nbuild the missing images first:"
    ) as raised:
        try_job.try_job(tmp_path / "job.tfvars", "convert", 3, tmp_path, engine=True)
    lines = str(raised.value).splitlines()
    assert lines[2:] == [f"    docker build -t {image} FOLDER" for image in builds]


def test_another_failure_stays_as_it_is(tmp_path, ran, monkeypatch):
    def fail(*_, **__):
        raise LaptopError("DAG run x failed")

    monkeypatch.setattr(try_job, "run_once", fail)
    with pytest.raises(LaptopError, match=r"^DAG run x failed$"):
        try_job.try_job(tmp_path / "job.tfvars", "convert", 3, tmp_path, engine=False)
