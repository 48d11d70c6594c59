"""What the commands do by default, and what a long installation says."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from batchmark.core.failures.endings import Ending
from batchmark.report.failures import in_short
from batchmark.report.terminal import sections as terminal
from laptop import __main__ as program
from laptop import demo, install, up
from laptop.airflow import Airflow
from laptop.containers import backup, lifecycle
from laptop.errors import FailedRunError, LaptopError
from laptop.own_jobs import try_job
from laptop.own_jobs.versions import Version
from laptop.session import Clock
from laptop.stack import PROFILE, ROOT
from tests.builders.reports import report_of
from tests.builders.runs import build_job, build_run
from tests.documented import documented, recipe

NOT_KNOWN = (
    "Does the GPU pay off? Not known. No GPU target was compared with a CPU target. Run it on "
    "at least one of each."
)
EXAMPLE = "job_container/own_jobs/thumbnails/job.tfvars"
ELSEWHERE = "make -C batchmark "  # in a clone beside the user's repository
NOT_ALONE = {"make containers-backup"}  # it needs TO=, and says so
PROGRAMS = (
    (demo, ["demo", "demo_sharing", "demo_distributed"]),
    (try_job, ["try_job", "compare_versions"]),
    (up, ["up", "down"]),
    (lifecycle, ["up", "down"]),
    (backup, ["backup", "restore"]),
)


def tried(jobs, job="None", repeats="3", *, engine=False, watch=None, target=None):
    return "try_job", jobs, job, repeats, f"{program.BUILD}/try-job", engine, watch, target, None


def test_each_documented_make_command_reaches_its_program(monkeypatch):
    called = []

    def note(name, *arguments, **options):
        given = (getattr(one, "profile", one) for one in arguments)
        called.append((name, *map(str, given), *options.values()))

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for module, names in PROGRAMS:
        for name in names:
            monkeypatch.setattr(module, name, partial(note, name))
    against = "laptop try-job --jobs a.tfvars --commit 2 --baseline b.tfvars --baseline-commit 1"
    lines = ("laptop up", "laptop try-job --jobs a.tfvars", against)
    typed = {line: shlex.split(line) for line in lines}
    for command in set(documented("make ")) - NOT_ALONE - set(documented(ELSEWHERE)):
        *_, last = recipe(command).splitlines()
        if " -m laptop " in last and " aws-check" not in last:  # test_command tries that one
            words = shlex.split(last.rpartition("; ")[2])
            typed[command] = words[words.index("laptop") :]
    for words in typed.values():
        monkeypatch.setattr(sys, "argv", words)
        assert program.main() == 0
    assert dict(zip(typed, called, strict=True)) == {
        "laptop up": ("up", "8080", f"{program.BUILD}/up", "None"),
        "laptop try-job --jobs a.tfvars": tried("a.tfvars"),
        against: (
            "compare_versions",
            str(Version(Path("a.tfvars"), "2")),
            str(Version(Path("b.tfvars"), "1")),
            *("None", "3", f"{program.BUILD}/try-job", False, None),
        ),
        "make demo": ("demo", "smoke", f"{program.BUILD}/demo"),
        "make demo SUITE=blog": ("demo", "blog", f"{program.BUILD}/demo"),
        "make demo-sharing": ("demo_sharing", f"{program.BUILD}/demo-sharing"),
        "make demo-distributed": ("demo_distributed", f"{program.BUILD}/demo-distributed"),
        "make try-job": tried(EXAMPLE),
        "make try-job ENGINE=yes": tried(EXAMPLE, engine=True),
        "make try-job JOBS=mine/job.tfvars": tried("mine/job.tfvars"),
        "make try-job JOBS=mine/job.tfvars WATCH=5": tried("mine/job.tfvars", watch="5"),
        "make try-job JOBS=mine/job.tfvars BASELINE=old/job.tfvars": (
            "compare_versions",
            str(Version(Path("mine/job.tfvars"))),
            str(Version(Path("old/job.tfvars"))),
            *("None", "3", f"{program.BUILD}/try-job", False, None),
        ),
        "make try-job JOBS=mine/job.tfvars ENGINE=yes": tried("mine/job.tfvars", engine=True),
        "make try-job JOBS=mine/job.tfvars JOB=convert REPEATS=6 ENGINE=yes": (
            tried("mine/job.tfvars", "convert", "6", engine=True)
        ),
        "make up": ("up", "8080", f"{program.BUILD}/up", "None"),
        "make up JOBS=mine/job.tfvars": ("up", "8080", f"{program.BUILD}/up", "mine/job.tfvars"),
        "make down": ("down", f"{program.BUILD}/up", False),
        "make down STATE=delete": ("down", f"{program.BUILD}/up", True),
        "make containers-up": ("up", "local", True),
        "make containers-up PROFILE=aws": ("up", "aws", True),
        "make containers-down": ("down", "local", False),
        "make containers-backup TO=/backups/monday": ("backup", "local", "/backups/monday"),
        "make containers-restore FROM=/backups/monday": ("restore", "local", "/backups/monday"),
    }


def test_down_keeps_runs_and_says_how_to_delete_them(tmp_path, capsys):
    folder = tmp_path / "up"
    up.down(folder)
    assert capsys.readouterr().out == "nothing was running\n"
    (folder / up.KEPT).mkdir(parents=True)
    for name in (up.LOGIN, up.SHELL):  # they lead to the stack that is stopped
        (folder / name).touch()
    up.down(folder)
    assert [path.name for path in folder.iterdir()] == [up.KEPT]
    assert (
        f"kept in {folder}: to delete them, run `make down STATE=delete`" in capsys.readouterr().out
    )
    up.down(folder, delete_state=True)
    assert f"deleted {folder}" in capsys.readouterr().out
    assert not folder.exists()


@pytest.fixture
def stack(tmp_path):
    """What `up` asks of a stack that has started."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    return StartedStack(folder)


LOGIN = {"Airflow": "http://127.0.0.1:8080", "user": "admin", "password": "p", "bucket": "b"}


def test_up_says_in_short_lines_what_to_do_next(stack, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(up, "processes_of", lambda _: ["one"])
    (stack.folder / up.LOGIN).write_text(json.dumps(LOGIN))
    up.up(8080, stack.folder)
    already, airflow, there, history, stop = capsys.readouterr().out.splitlines()
    assert already == "already up"
    assert airflow == "Airflow: http://127.0.0.1:8080, user admin, password p"
    assert there.startswith("In Airflow, trigger GPU-CPU benchmark;")
    assert history.endswith("' && .venv/bin/batchmark history show --bucket b)")
    assert stop == "`make down` stops it and keeps all measurements"
    (stack.folder / up.LOGIN).write_text(json.dumps(LOGIN | {"jobs": ["convert", "train"]}))
    up.up(8080, stack.folder, tmp_path / "job.tfvars")
    already, _, there, *_ = capsys.readouterr().out.splitlines()
    assert already == "already up; to use another JOBS= file, run `make down` first"
    assert there.startswith(
        "In Airflow, trigger Own job benchmark for convert, train, or GPU-CPU benchmark;"
    )


def test_a_shell_with_the_file_of_up_reaches_the_local_cloud_alone(stack):
    file = stack.folder / up.SHELL
    file.write_text(up._for_a_shell(stack))
    show = subprocess.run(
        ["bash", "-c", f". '{file}' && env"],
        env={"PATH": os.environ["PATH"], "AWS_PROFILE": "mine", "AWS_ACCESS_KEY_ID": "AKIAMINE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line for line in show.stdout.splitlines() if line.startswith("AWS_")} == {
        "AWS_ENDPOINT_URL=http://127.0.0.1:5000",
        f"AWS_SHARED_CREDENTIALS_FILE={stack.credentials}",
        "AWS_DEFAULT_REGION=us-east-1",
        "AWS_REGION=us-east-1",
    }


def test_up_with_a_file_has_all_its_own_jobs_in_the_files_folder(tmp_path, monkeypatch):
    jobs = {name: {"command": ["sh"], "vcpus": 4, "output": None} for name in ("convert", "train")}
    monkeypatch.setattr(up, "read_own_jobs", lambda _: jobs)
    options = up._with_own_jobs(tmp_path / "mine" / "job.tfvars")
    assert options["jobs_file"] == tmp_path / "mine" / "job.tfvars"
    assert {name: job["vcpus"] for name, job in options["own_jobs"].items()} == {
        "convert": None,
        "train": None,
    }
    jobs["train"] |= {"command": ["nowhere-to-be-found"]}
    with pytest.raises(LaptopError, match="own job train runs 'nowhere-to-be-found'"):
        up._with_own_jobs(tmp_path / "job.tfvars")
    monkeypatch.setattr("laptop.own_jobs.jobs_file.MOST_FOLDER_BYTES", -1)
    with pytest.raises(LaptopError, match="each job starts in a copy of it"):
        up._with_own_jobs(tmp_path / "job.tfvars")


class StartedStack:
    endpoint = "http://127.0.0.1:5000"
    airflow, processes = SimpleNamespace(url="u", password="p"), SimpleNamespace(env={})

    def __init__(self, folder, *_, profile=PROFILE, **_options):
        self.folder, self.profile = folder, profile
        self.credentials = folder / "credentials"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def check(self):
        pass

    start = stop = check


def test_up_keeps_its_own_jobs_over_down_and_up(tmp_path, monkeypatch, capsys):
    started = []

    def stack(folder, *_, own_jobs=None, **__):
        started.append(own_jobs)
        return StartedStack(folder)

    class Client(nullcontext):
        def wait_for_dag(self, _):
            pass

    file, folder = tmp_path / "job.tfvars", tmp_path / "up"
    file.write_text("")
    job = {"command": ["sh"], "output": None}
    monkeypatch.setattr(up, "read_own_jobs", lambda _: {"convert": job})
    monkeypatch.setattr(up, "Stack", stack)
    monkeypatch.setattr(up, "AirflowClient", lambda _: Client(Client()))
    monkeypatch.setattr(up, "_bucket_with_example", lambda _: "b")
    for name in ("refuse_beside_others", "require_port"):
        monkeypatch.setattr(up, name, lambda *_: None)

    def once(jobs_file=None):
        up.up(8080, folder, jobs_file)
        up.down(folder)
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    assert "trigger Own job benchmark for convert" in once(Path("job.tfvars"))
    assert f"own jobs from {file}: as in the last start" in once()
    assert [list(jobs) for jobs in started] == [["convert"], ["convert"]]
    file.unlink()
    assert f"own jobs from {file}: skipped, as the file no longer exists" in once()
    assert started[-1] is None


def test_the_demo_ends_with_the_answer_and_where_everything_lies(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "demo"
    monkeypatch.setattr(demo, "Stack", StartedStack)
    report = report_of(build_run())
    documents = folder / "raw" / report.run_id / "g5.xlarge"
    documents.mkdir(parents=True)
    monkeypatch.setattr(demo, "run_benchmark", lambda *_: report)
    monkeypatch.setattr(terminal, "print_page", lambda _, console: widths.append(console.width))
    widths = []
    monkeypatch.setattr(demo.sample, "sample_beside", lambda *_: nullcontext())
    demo.demo("smoke", folder)
    answer, _, report, _, raw, _, copies, done, last = capsys.readouterr().out.splitlines()[-9:]
    assert widths == [80]  # of a log, too
    assert (answer, report) == (NOT_KNOWN, f"report: {folder}/report.html")
    assert raw == f"result documents from g5.xlarge, for `batchmark compare`: {documents}"
    assert copies.startswith("files under runs/ and raw/ are in the bucket")
    assert copies.endswith(f"copies are in {folder}")
    assert done.endswith("done")
    assert last.endswith(f"{folder}/sample/index.html")


def test_several_runs_share_a_stack_and_the_first_tells_how_long_the_others_take(
    tmp_path, monkeypatch, capsys
):
    now, done = 0.0, []

    def run(stack, *_):
        nonlocal now
        now += 119
        done.append(stack)
        return report_of(build_run())

    monkeypatch.setattr(demo.time, "monotonic", lambda: now)
    monkeypatch.setattr(demo, "Stack", StartedStack)
    monkeypatch.setattr(demo, "run_benchmark", run)
    demo.run_once(tmp_path, "dag", {}, demo.Clock(), after=done.append, runs=3)
    assert len(done) == 6
    assert len(set(done)) == 1
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if "more run" in line] == [
        "[ 119 s] 2 more runs: about 4 minutes",
        "[ 238 s] 1 more run: about 2 minutes",
    ]
    assert said.count("\nreport: ") == 1


def test_a_run_whose_jobs_failed_shows_its_report_and_each_failure_once(
    tmp_path, monkeypatch, capsys
):
    job = build_job("g4dn.xlarge", [])
    job = job.model_copy(update={"ending": Ending.of("exit code 3", ["boom\x07"])})
    failed = report_of(build_run(job, job.model_copy(update={"job_id": "other"})))
    error = FailedRunError(in_short(failed.failed, failed.lost), failed)
    stopped = Mock()
    monkeypatch.setattr(demo, "Stack", StartedStack)
    monkeypatch.setattr(demo, "run_benchmark", Mock(side_effect=error))
    with pytest.raises(LaptopError) as raised:
        demo.run_once(tmp_path / "demo", "dag", {}, Clock(), after=stopped)
    boom = "boom\N{SYMBOL FOR BELL}"
    assert str(raised.value) == f"2 jobs on g4dn.xlarge failed: exit code 3: {boom}"
    out = capsys.readouterr().out
    assert "What failed\n2 jobs on g4dn.xlarge failed: exit code 3.\n" in out
    assert f"report: {tmp_path}/demo/report.html" in out
    assert not out.rstrip().endswith("done")
    stopped.assert_called_once()


SHARED = ["g4dn.xlarge", "g4dn.2xlarge-shared"]


@pytest.mark.parametrize(
    ("command", "done"),
    [
        (demo.demo_sharing, [("local_sharing.tfvars", SHARED, "gpu_sharing_benchmark")]),
        (
            demo.demo_distributed,
            [
                "images",
                ("local_multi_node.tfvars", None, "distributed_training_benchmark"),
                "no file system",
            ],
        ),
    ],
)
def test_the_other_demos_have_stacks_and_dags_of_their_own(
    tmp_path, monkeypatch, capsys, command, done
):
    found = []

    def run(stack, conf, _, dag_id):
        found.append((stack.profile.name, conf.get("targets"), dag_id))
        return report_of(build_run())

    monkeypatch.setattr(demo, "Stack", StartedStack)
    monkeypatch.setattr(demo, "run_benchmark", run)
    monkeypatch.setattr(demo, "make_images", lambda _: found.append("images"))
    monkeypatch.setattr(demo, "refuse_file_systems", lambda _: found.append("no file system"))
    command(tmp_path)
    assert found == done
    assert f"\n{NOT_KNOWN}\n" in capsys.readouterr().out
    assert all(f'"{target}"' in demo.SHARING_PROFILE.read_text() for target in SHARED)


def test_the_demo_tells_progress_instead_of_every_row(monkeypatch):
    now = 100.0
    monkeypatch.setattr(demo.time, "monotonic", lambda: now)
    jobs = demo.JobProgress()
    first = [
        "g5: batchmark-job: suite smoke, 26 rows",
        "g5: [0/26] matmul size=256 float32: turn 1 of 8: median 1 ms, 9 samples",
        "g5: [1/26] matmul size=256 float32: median 1 ms, cold 2 ms; about 40 s left",
        "g5:     the samples cluster around more than one value",
        "c5: [1/26] fft size=128 float32: FAILED, no memory; about 2 min left",
    ]
    assert list(jobs.lines_to_show(first)) == [
        "g5: batchmark-job: suite smoke, 26 rows",
        "g5: 1 of 26 rows measured; about 40 s left",
        "c5: 1 of 26 rows measured; about 2 min left",
    ]
    second = ["g5: [2/26] sort: median 1 s", "g5: batchmark-job: wrote x", "g5: suite smoke on cpu"]
    assert list(jobs.lines_to_show(second)) == ["g5: batchmark-job: wrote x"]
    now += demo.PROGRESS_SECONDS
    assert list(jobs.lines_to_show(second[:1])) == ["g5: 2 of 26 rows measured"]


def test_the_demo_tells_each_task_once_and_how_many_of_a_kind_have_ended():
    def seen(*states):
        return [
            {"task_id": "compare", "map_index": -1, "state": states[0]},
            *({"task_id": "run", "map_index": n, "state": states[n + 1]} for n in range(2)),
        ]

    polls = [
        seen("queued", "running", "up_for_retry"),
        seen("queued", "success", "running"),
        seen("success", "success", "failed"),
        seen("success", "success", "failed"),
    ]
    airflow = SimpleNamespace(task_instances=lambda *_: polls.pop(0))
    tasks = demo.TaskStates(airflow, demo.DAG_ID, "a-run")
    assert [tasks.ended() for _ in range(4)] == [
        ["Airflow: run[1] up_for_retry (0 of 2)"],
        ["Airflow: run[0] success (1 of 2)"],
        ["Airflow: compare success", "Airflow: run[1] failed (2 of 2)"],
        [],
    ]


def test_the_local_cloud_keeps_its_port_where_it_is_free(tmp_path):
    port = up._cloud_port(tmp_path)
    assert up._cloud_port(tmp_path) == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert up._cloud_port(tmp_path) != port


INTERRUPTED_IN_A_STRING = """
import signal, sys
from batchmark.report import answer as report_answer
from batchmark.report.terminal import sections
from laptop import __main__ as program
program._run_processes = lambda _: exec("signal.raise_signal(signal.SIGINT)")
sys.argv = ["laptop", "demo"]
sys.exit(program.main())
"""


def test_an_interrupt_while_a_string_is_evaluated_ends_as_any_other(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED_IN_A_STRING)
    ended = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (program.INTERRUPTED, "demo: interrupted\n")


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        # Mistakes are told before what makes reports is loaded.
        ("laptop.demo, laptop.up, laptop.own_jobs.try_job", {"altair", "pyarrow", "scipy"}),
        ("batchmark.command_line", {"airflow", "altair", "boto3", "pyarrow"}),
    ],
)
def test_a_command_loads_no_library_that_it_can_do_without(modules, absent):
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}\nprint({absent} & set(sys.modules))"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/plugins:{ROOT}/job_container"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "set()\n"


def test_a_long_installation_says_that_it_goes_on_and_how_it_ended(monkeypatch, capsys):
    monkeypatch.setattr(install, "PROGRESS_SECONDS", 0.05)
    slow = "import time; time.sleep(0.2); raise SystemExit(3)"
    assert install.follow([sys.executable, "-c", slow]) == 3
    assert capsys.readouterr().out.startswith("install: still running after 0 s\n")


def test_airflows_database_is_made_in_a_new_folder_and_in_a_known_one(tmp_path):
    ran = []
    processes = SimpleNamespace(run=lambda name, *_, cwd: ran.append((name, cwd)))
    airflow = Airflow(tmp_path / "stack" / "airflow", 8080, tmp_path, schedules=False)
    for _ in range(2):
        airflow.migrate(processes, tmp_path)
        assert ran.pop() == ("airflow-migrate", tmp_path)
        assert airflow.home.stat().st_mode & 0o777 == 0o700
        for name in ("passwords.json", "airflow.db"):
            assert (airflow.home / name).stat().st_mode & 0o777 == 0o600
