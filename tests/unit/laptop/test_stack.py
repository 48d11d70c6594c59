"""A stack's credentials, its Airflow's settings and API, and what a start says."""

import json
import stat
import sys
import threading
from pathlib import Path
from unittest.mock import Mock, call

import httpx
import pytest

from laptop.airflow import DATABASE, Airflow, AirflowClient
from laptop.demo import end_of_log
from laptop.stack import PROFILE, TRENDS_HTML, Ports, Stack, apply_core_stack, path_of_jobs
from local_cloud.credentials import read_or_make


@pytest.fixture
def stack_of(tmp_path, monkeypatch):
    """Stacks in a folder, whose local cloud and programs are only asked for."""
    monkeypatch.setattr("laptop.stack.httpx.get", lambda *_, **__: None)

    def made(name="stack", **options):
        stack = Stack(tmp_path / name, Ports(1, 2), lambda _: None, **options)
        stack.processes.start, stack.processes.run = Mock(), Mock()
        return stack

    return made


def test_the_local_cloud_and_all_its_clients_share_a_secret_of_this_stack(stack_of):
    stack = stack_of()
    stack.start_cloud()
    _, argv = stack.processes.start.call_args.args
    named = argv[argv.index("--credentials") + 1]
    secret = read_or_make(stack.credentials)
    assert named == str(stack.credentials)
    assert stat.S_IMODE(stack.credentials.stat().st_mode) == 0o600
    assert secret not in " ".join(argv)
    for principal in ("laptop", "airflow", "terraform"):
        variables = stack.aws_as(principal)
        assert variables["AWS_ACCESS_KEY_ID"] == principal
        assert variables["AWS_SECRET_ACCESS_KEY"] == secret
    assert stack.processes.env["AWS_SECRET_ACCESS_KEY"] == secret
    assert stack_of("other").aws["AWS_SECRET_ACCESS_KEY"] != secret
    assert "[default]\naws_access_key_id = laptop\n" in stack.credentials.read_text()


def test_only_a_new_database_is_said_to_be_created(stack_of, monkeypatch):
    stack, said = stack_of(), []
    stack.say = said.append
    for step in ("migrate", "start", "wait_until_healthy"):
        monkeypatch.setattr(Airflow, step, lambda *_: None)
    stack.airflow.home.mkdir(parents=True)
    for what in ("creating its database", "bringing its database up to date"):
        said.clear()
        stack.start_airflow()
        assert said[0] == f"Airflow: {what} and starting its components (about 60 s)"
        (stack.airflow.home / DATABASE).touch()


def test_a_user_who_waits_for_terraform_alone_is_told_so(stack_of):
    stack, said = stack_of(), []
    ready = threading.Event()

    def say(text):
        said.append(text)
        ready.set()

    stack.say, stack.apply = say, ready.wait
    stack.start_cloud = stack.start_airflow = Mock()
    stack.start()
    assert said == ["Terraform: still applying"]


def test_a_stack_that_keeps_its_state_goes_on_with_its_login(tmp_path, stack_of):
    keeping = {"cloud_state": tmp_path / "up" / "cloud"}
    first = stack_of("up", **keeping)
    first.start_cloud()
    first.airflow.migrate(first.processes, tmp_path)
    assert (first.folder / "cloud").is_dir()  # which the local cloud wants to find
    for name in ("terraform.tfstate", "logs/calls.jsonl"):
        (first.folder / name).parent.mkdir(exist_ok=True)
        (first.folder / name).write_text("{}")
    second = stack_of("up", **keeping)
    second._forget_last_time()
    assert second.aws == first.aws
    assert second.airflow.password == first.airflow.password
    left = {str(path.relative_to(first.folder)) for path in first.folder.rglob("*")}
    assert left >= {"airflow/airflow.db", "airflow/passwords.json", "terraform.tfstate"}
    assert "logs/calls.jsonl" not in left
    other = stack_of("up")
    of_last_run = [first.folder / name for name in ("report.html", "report.json", TRENDS_HTML)]
    for path in of_last_run:
        path.touch()
    other._forget_last_time()
    assert other.aws != first.aws
    assert not any(path.exists() for path in (first.folder / "airflow", *of_last_run))


def test_own_jobs_reach_terraform_the_form_and_a_pool_that_one_fills(
    tmp_path, monkeypatch, stack_of
):
    axis = {"parameter": "mb", "sizes": [1, 2]}
    job = {"image": "mine", "command": ["true"], "axis": axis}
    other = {"definition_dirs": {"mine": tmp_path / "other"}}
    jobs = {"convert": job, "train": job}
    stack = stack_of(own_jobs=jobs, job_dir=tmp_path, engine=True, **other)
    told = json.loads(stack.processes.env["BATCHMARK_OWN_JOBS"])
    assert told == {"convert": {"axis": axis}, "train": {"axis": axis}}
    without = stack_of("without")
    assert "BATCHMARK_OWN_JOBS" not in without.processes.env, "the form is told none"
    stack.start_cloud()
    words = " ".join(stack.processes.start.call_args.args[1])
    folders = f"--job-dir {tmp_path} --definition-dir=mine={tmp_path}/other --copy-job-dir"
    for option in ("--vcpus 2", "--jobs containers", folders):
        assert f" {option} " in words
    without.start_cloud()
    assert "--copy-job-dir" not in without.processes.start.call_args.args[1]
    monkeypatch.setattr("laptop.stack.init_one_at_a_time", lambda _: None)
    terraform = Mock()
    terraform.outputs.return_value = {"image": "r:t"}
    assert apply_core_stack(terraform, stack.say, PROFILE, {"convert": job}) == "r:t"
    assert apply_core_stack(terraform, stack.say) == "r:t"
    assert terraform.apply.call_args_list == [
        call(var_file=PROFILE, variables={"own_jobs": {"convert": job}}),
        call(var_file=PROFILE, variables=None),
    ]


def test_python_of_a_job_is_this_one_or_the_users_active_one(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert path_of_jobs() == f"{Path(sys.executable).parent}:/usr/bin"
    monkeypatch.setenv("VIRTUAL_ENV", "/home/me/venv")
    assert path_of_jobs() == "/usr/bin"


def test_a_busy_machines_airflow_is_asked_again_but_not_for_ever(tmp_path, monkeypatch):
    left = []  # what it does with each GET in turn

    def answer(transport, request):
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "token"})
        if left.pop(0) == "too slow":
            raise httpx.ReadTimeout("timed out", request=request)
        return httpx.Response(200, json={"state": "running"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    with AirflowClient(Airflow(tmp_path, 8080, tmp_path, schedules=False)) as client:
        left += ["too slow", "too slow", "at once"]
        assert client.state("dag", "run") == "running"
        left += ["too slow"] * 4
        with pytest.raises(httpx.ReadTimeout):
            client.state("dag", "run")


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("one\n::group::Post Execute\n::endgroup::\ntwo", "one\ntwo"),
        (f"{'x' * 1990} first\nlast line", "last line"),
        ("y" * 3000, "y" * 2000),
    ],
)
def test_a_failed_task_is_told_in_whole_lines(log, told):
    assert end_of_log(log) == told
