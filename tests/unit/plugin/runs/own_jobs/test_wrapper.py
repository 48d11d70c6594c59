"""The script that own jobs run below, in the shells that images have."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batchmark.aws.job_log import MARKS, MarkedLine
from batchmark.runs.own_jobs.lines import read_lines
from batchmark.runs.own_jobs.wrapper import CHECK, OUTPUT, OUTPUT_SHA256, command, script
from batchmark_job.result.metric import FILE_VARIABLE, MOST_CHARACTERS, MOST_LINES
from tests.waiting import wait_for

FACT_PREFIX, METRIC_FILE_PREFIX = "BATCHMARK_JOB ", "BATCHMARK_METRIC_FILE "
SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}


INSTALLED = {
    name: path for name, (program, *_) in SHELLS.items() if (path := shutil.which(program))
}


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_that_images_have_is_tried(name):
    if name not in INSTALLED:
        pytest.skip(f"{name} is not on the PATH: no test tries it")
    _, *options = SHELLS[name]
    subprocess.run([INSTALLED[name], *options, "-n", "-c", script()], check=True)


@pytest.fixture(params=INSTALLED)
def shell(request):
    _, *options = SHELLS[request.param]
    return [INSTALLED[request.param], *options]


class Wrapped:
    """Commands below the script, in a folder of their own."""

    def __init__(self, shell, folder):
        self.shell, self.folder, self.changes = shell, folder, []

    def instead(self, old, new):
        """A path that the script reads, replaced."""
        assert old in script()
        self.changes.append((old, str(new)))

    def words(self, *words):
        _, option, text, *rest = command(words)
        for old, new in self.changes:
            text = text.replace(old, new)
        return [*self.shell, option, text, *rest]

    def environment(self, **variables):
        kept = {"PATH": os.environ["PATH"], "TMPDIR": str(self.folder)}
        return kept | variables

    def run(self, *words, timeout=60, **variables):
        return subprocess.run(
            self.words(*words),
            timeout=timeout,
            cwd=self.folder,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def start(self, *words, **variables):
        return subprocess.Popen(
            self.words(*words),
            cwd=self.folder,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=take_signals,  # noqa: PLW1509 - it takes no lock
        )


def take_signals():
    """As in a container: a shell can't trap what it was started to ignore, as by nohup."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def wrapped(shell, tmp_path):
    return Wrapped(shell, tmp_path)


@pytest.fixture
def programs(shell, tmp_path, monkeypatch):
    """Puts programs on the PATH, each a text of shell; or all there are but some."""
    folder = tmp_path / "programs"
    folder.mkdir()

    def put(**texts):
        for name, text in texts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def only(*names):
        own = subprocess.run(
            [*shell, "-c", "rm --help"], env={"PATH": ""}, capture_output=True, check=False
        )
        if own.returncode == 0:
            pytest.skip("this shell has all programs in itself")
        for name in names:
            (folder / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(folder))

    put.only = only
    return put


def until(test):
    """A command of a shell that waits for something, ten seconds at most."""
    return f"tries=1000; until {test} || [ $((tries -= 1)) = 0 ]; do sleep 0.01; done"


def says(job, line):
    """Waits for a line of a job, which ends if it never comes."""
    assert line in iter(job.stdout.readline, "")


def says_to_its_end(job):
    """The rest of its output; communicate() would lose what came with the last line read."""
    with job:
        return job.stdout.read()


def lines(output, prefix):
    text = output.decode() if isinstance(output, bytes) else output
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def facts(output):
    """Values by key; those of `gpu`, of which there may be several, in one."""
    found = {}
    for line in lines(output, FACT_PREFIX):
        key, _, value = line.partition(" ")
        found[key] = f"{found[key]}; {value}" if key in found else value
    return found


def test_the_script_has_nothing_that_batch_replaces_and_fits_into_overrides():
    assert not [each for each in ("$(", "$$", "Ref::") if each in script()]
    assert len(script()) < 3100
    assert len(json.dumps(command(["x"]))) < 3400
    assert not [line for line in script().splitlines() if line.startswith(("#", " ")) or not line]


def test_without_a_command_there_is_nothing_to_wrap():
    with pytest.raises(ValueError, match="no command"):
        command([])


@pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
def test_it_ends_as_its_command(wrapped, code):
    done = wrapped.run("sh", "-c", f"exit {code}")
    assert done.returncode == code
    assert facts(done.stdout)["end"].split()[0] == str(code)
    assert done.stderr == b""


def test_a_command_that_is_not_there_ends_with_127(wrapped):
    done = wrapped.run("no-such-program")
    assert done.returncode == 127
    assert b"no-such-program" in done.stderr
    assert facts(done.stdout)["end"].split()[0] == "127"


def test_a_command_is_a_program_and_no_word_of_the_shell(wrapped, programs):
    programs(_fact="echo a program; exit 5", eval="echo another; exit 6")
    assert wrapped.run("_fact").returncode == 5
    assert wrapped.run("eval", "exit 9").returncode == 6


def test_a_command_killed_by_a_signal_has_its_code(wrapped):
    done = wrapped.run("sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr == b""


def test_words_arrive_as_they_are(wrapped):
    words = ["a b", "double \" and single '", "two\nlines", "$HOME `id` \\n *", "", "-n", "Ref::x"]
    shown = "import sys; print(repr(sys.argv[1:]))"
    done = wrapped.run(sys.executable, "-c", shown, *words)
    assert repr(words) in done.stdout.decode().splitlines()


def test_the_environment_of_a_command_is_the_containers_and_the_metrics_file(wrapped):
    done = wrapped.run("env", line="mine", n="2", code="a b")
    shown = set(done.stdout.decode().splitlines())
    assert {"line=mine", "n=2", "code=a b"} <= shown
    own = {line.partition("=")[0] for line in shown if "=" in line}
    ours = {"PATH", "TMPDIR", "line", "n", "code", FILE_VARIABLE}
    assert own - ours <= {"PWD", "OLDPWD", "SHLVL", "_"}


def test_what_is_told_of_the_machine_is_as_the_kernel_says(wrapped, programs, tmp_path):
    programs(threads='echo "${OMP_NUM_THREADS:-12}"')
    wrapped.instead("nproc", "threads")  # which some busyboxes have in themselves
    process = tmp_path / "proc"
    (process / "sys/kernel").mkdir(parents=True)
    (process / "cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: Stand-in 9 CPU @ 2 GHz\n"
        "processor\t: 1\nmodel name\t: other\n"
    )
    (process / "meminfo").write_text("MemTotal:       24684084 kB\nMemFree: 1 kB\n")
    (process / "sys/kernel/osrelease").write_text("6.1.0-test\n")
    (process / "uptime").write_text("12.34 20.00\n")
    (process / "stat").write_text("cpu  10 20 30 1000 50 6 7 8 0 0\ncpu0 1 2 3\n")
    wrapped.instead("/proc", process)
    later = "echo 'cpu  110 21 30 1400 60 6 7 9 0 0' >proc/stat; echo 15.84 9 >proc/uptime"
    done = wrapped.run("sh", "-c", later, OMP_NUM_THREADS="1")
    told = facts(done.stdout)
    told.pop("peak_memory", None)
    assert told == {
        "cpu": "Stand-in 9 CPU @ 2 GHz",
        "memory_kib": "24684084",
        "kernel": "6.1.0-test",
        "threads": "12",
        "begin": "1 12.34",
        "end": "0 15.84",
        "busy": "101 512",
        "over": "",
    }


def test_the_real_machine_is_told(wrapped):
    done = wrapped.run("sh", "-c", "sleep 0.1; echo works")
    said, told = done.stdout.decode().splitlines(), facts(done.stdout)
    assert int(told["memory_kib"]) > 2**16
    assert int(told["threads"]) >= 1
    assert told["kernel"] == os.uname().release
    version, began = told["begin"].split()
    assert version == "1"
    assert float(told["end"].split()[1]) - float(began) >= 0.09
    assert said.index(f"{FACT_PREFIX}begin {told['begin']}") < said.index("works")


@pytest.mark.parametrize("stat", ["", "cpu\n", "cpu  a b c\n", "intr 1; exit 9\n", "cpu 1 2 3\n"])
def test_an_odd_proc_costs_its_facts_alone(wrapped, tmp_path, stat):
    process = tmp_path / "proc"
    process.mkdir()
    (process / "stat").write_text(stat)
    wrapped.instead("/proc", process)
    done = wrapped.run("sh", "-c", "exit 3")
    assert done.returncode == 3
    assert done.stderr == b""
    assert facts(done.stdout)["end"] == "3"
    assert "busy" not in facts(done.stdout)


def test_without_proc_a_command_runs(wrapped, tmp_path):
    wrapped.instead("/proc", tmp_path / "nowhere")
    done = wrapped.run("sh", "-c", "exit 3")
    assert done.returncode == 3
    assert done.stderr == b""
    assert facts(done.stdout).keys() - {"threads", "peak_memory"} == {"begin", "end", "over"}


def test_in_an_image_with_nothing_but_a_shell_a_command_runs(wrapped, programs):
    programs.only("sh")
    done = wrapped.run("sh", "-c", 'echo works; echo no >"$BATCHMARK_METRICS"; exit 3')
    assert done.returncode == 3
    assert b"works\n" in done.stdout
    assert "end" in facts(done.stdout)
    assert done.stderr.decode() == "batchmark: no folder for metrics\n"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [(5_000_000, 9_000_000_000, "9000000000"), (100_000_000, 200_000_000, None)],
)
def test_memory_is_told_where_it_is_the_jobs_alone(wrapped, tmp_path, before, after, told):
    (tmp_path / "peak").write_text(f"{before}\n")
    wrapped.instead("/sys/fs/cgroup/memory.peak", tmp_path / "peak")
    done = wrapped.run("sh", "-c", f"echo {after} >peak")
    assert facts(done.stdout).get("peak_memory") == told


SMI = """
case "$*" in
  --query-gpu=index,utilization.gpu,memory.used*-l*)
    printf '0, 0, 9000\\n1, 99, 1\\n0, 10, 1000\\n1, [N/A], [N/A]\\n0, 90, 3000\\n'
    echo $$ >smi.pid
    exec sleep 60 ;;
  --query-gpu=name,driver_version,memory.total*) yes 'NVIDIA L4, 570.1, 23034' | head -n 2 ;;
  *) exit 64 ;;
esac
"""


def has_ended(process):
    """Whether it does within some seconds, though nobody may have asked for its code."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_gpus_are_named_and_watched_while_the_command_runs(wrapped, programs, tmp_path):
    programs(**{"nvidia-smi": SMI})
    done = wrapped.run("sh", "-c", f"{until('[ -s smi.pid ]')}; exit 4")
    told = facts(done.stdout)
    assert done.returncode == 4
    assert done.stderr == b""
    assert told["gpu"] == "NVIDIA L4, 570.1, 23034; NVIDIA L4, 570.1, 23034"
    assert told["gpu_busy"] == "2 50.0 90 3000"
    assert has_ended(int((tmp_path / "smi.pid").read_text()))
    assert {path.name for path in tmp_path.iterdir()} == {"programs", "smi.pid"}


def test_one_sample_of_a_gpu_tells_nothing_of_the_command(wrapped, programs):
    once = SMI.replace("0, 10, 1000\\n1, [N/A], [N/A]\\n0, 90, 3000\\n", "")
    assert once != SMI
    programs(**{"nvidia-smi": once})
    done = wrapped.run("sh", "-c", until("[ -s smi.pid ]"))
    assert "gpu" in facts(done.stdout)
    assert "gpu_busy" not in facts(done.stdout)


def test_a_driver_that_hangs_holds_neither_the_job_nor_its_metrics(wrapped, programs, tmp_path):
    programs(**{"nvidia-smi": SMI.replace("exec sleep 60", "trap '' TERM; exec sleep 60")})
    done = wrapped.run(
        "sh", "-c", f'{until("[ -s smi.pid ]")}; echo x >>"$BATCHMARK_METRICS"', timeout=10
    )
    os.kill(int((tmp_path / "smi.pid").read_text()), signal.SIGKILL)
    said = done.stdout.decode()
    assert said.index("BATCHMARK_METRIC_FILE x") < said.index("BATCHMARK_JOB gpu_busy")
    assert said.endswith("BATCHMARK_JOB over\n")


def test_a_driver_that_fails_is_no_gpu(wrapped, programs):
    programs(**{"nvidia-smi": "echo NVIDIA-SMI has failed; exit 9"})
    done = wrapped.run("true")
    assert done.returncode == 0
    assert done.stderr == b""
    assert not {"gpu", "gpu_busy"} & facts(done.stdout).keys()


@pytest.mark.parametrize("sent", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"])
def test_a_signal_reaches_the_command_as_sigterm_and_its_code_counts(wrapped, sent):
    job = wrapped.start("sh", "-c", f"trap 'echo told; exit 7' TERM; echo ready; {until('false')}")
    says(job, "ready\n")
    job.send_signal(signal.Signals[sent])
    said = says_to_its_end(job)
    assert job.returncode == 7
    assert "told\n" in said
    assert facts(said)["end"].split()[0] == "7"


def test_a_command_may_go_on_after_sigterm(wrapped):
    wait = f"trap 'echo told; n=x$n' TERM; echo ready; {until('[ ${#n} -ge 3 ]')}"
    job = wrapped.start("sh", "-c", f"{wait}; exit 5")
    says(job, "ready\n")
    for _ in range(3):
        job.send_signal(signal.SIGTERM)
        assert job.stdout.readline() == "told\n"
    said = says_to_its_end(job)
    assert job.returncode == 5
    assert facts(said)["end"].split()[0] == "5"


def test_a_sigterm_just_after_the_command_began_reaches_it_once(wrapped):
    wrapped.instead("_pid=$!\n", f"_pid=$!\n{until('[ -f sent ]')}\n")
    wrapped.instead("\n_code=\nwhile", "\ntouch over\n_code=\nwhile")
    wait = f"trap 'echo told' TERM; echo ready; {until('[ -f over ]')}"
    job = wrapped.start("sh", "-c", f"{wait}; exit 5")
    says(job, "ready\n")
    job.send_signal(signal.SIGTERM)
    assert job.stdout.readline() == "told\n"
    (wrapped.folder / "sent").touch()
    said = says_to_its_end(job)
    assert job.returncode == 5
    assert "told" not in said


def test_a_command_that_knows_no_sigterm_ends_by_it(wrapped):
    job = wrapped.start("sh", "-c", "echo ready; exec sleep 60")
    says(job, "ready\n")
    job.send_signal(signal.SIGTERM)
    said = says_to_its_end(job)
    assert job.returncode == 128 + signal.SIGTERM
    assert facts(said)["end"].split()[0] == "143"


def test_sigterm_before_the_command_began_ends_it(wrapped, programs):
    programs(**{"nvidia-smi": "touch asked; sleep 0.5; exit 9"})
    job = wrapped.start("sleep", "60")
    wait_for((wrapped.folder / "asked").exists, "asked", 10, every=0.01)
    job.send_signal(signal.SIGTERM)
    said = says_to_its_end(job)
    assert job.returncode == 128 + signal.SIGTERM
    assert facts(said)["end"].split()[0] == "143"


def test_children_that_stay_behind_do_not_keep_it(wrapped, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        job = subprocess.Popen(
            wrapped.words("sh", "-c", "sleep 60 & echo $! >left; exit 3"),
            cwd=tmp_path,
            env=wrapped.environment(),
            stdout=out,
        )
        try:
            assert job.wait(timeout=10) == 3
        finally:
            os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


def test_100_mb_of_output_pass_unharmed(wrapped, tmp_path):
    size, counted = 100_000_000, hashlib.sha256()
    started = time.monotonic()
    with subprocess.Popen(
        wrapped.words("head", "-c", str(size), "/dev/zero"),
        cwd=tmp_path,
        env=wrapped.environment(),
        stdout=subprocess.PIPE,
    ) as job:
        said = job.stdout.read()
    assert time.monotonic() - started < 30
    begun, _, rest = said.partition(b"\0")
    counted.update(rest[: size - 1])
    assert counted.digest() == hashlib.sha256(bytes(size - 1)).digest()
    assert facts(rest[size - 1 :])["end"].split()[0] == "0"
    assert "begin" in facts(begun)


METRIC = '{"metric": "rate", "value": 2, "unit": "1/s", "higher_is_better": true}'


def test_the_metrics_file_is_told_line_by_line_and_removed(wrapped, tmp_path):
    done = wrapped.run("sh", "-c", f"printf '%s\\n%s' '{METRIC}' last >>\"$BATCHMARK_METRICS\"")
    assert lines(done.stdout, METRIC_FILE_PREFIX) == [METRIC, "last"]
    assert done.stdout.endswith(b"last\nBATCHMARK_JOB over\n")
    assert list(tmp_path.iterdir()) == []


def test_bad_bytes_in_the_metrics_file_spoil_no_other_line(wrapped, tmp_path):
    (tmp_path / "bad").write_bytes(b"\xff\xfe\x80 \\n %s\n" + METRIC.encode() + b"\r\n\n")
    done = wrapped.run("sh", "-c", 'cat bad >>"$BATCHMARK_METRICS"')
    told = [line for line in done.stdout.splitlines() if line.startswith(b"BATCHMARK_METRIC_FILE")]
    prefix = METRIC_FILE_PREFIX.encode()
    assert told == [prefix + b"\xff\xfe\x80 \\n %s", prefix + METRIC.encode(), prefix]
    assert done.stderr == b""


def test_of_many_lines_the_first_are_told_and_the_others_counted(wrapped):
    done = wrapped.run("sh", "-c", 'seq 20000 >"$BATCHMARK_METRICS"')
    told = lines(done.stdout, METRIC_FILE_PREFIX)
    assert told == [str(number) for number in range(1, MOST_LINES + 1)]
    assert facts(done.stdout)["metrics_left_out"] == "10000"


def test_a_long_line_is_told_as_too_long(wrapped):
    done = wrapped.run("sh", "-c", 'head -c 1000000 /dev/zero | tr "\\0" x >"$BATCHMARK_METRICS"')
    (told,) = lines(done.stdout, METRIC_FILE_PREFIX)
    assert len(told) == MOST_CHARACTERS + 1


def test_of_a_file_that_was_there_what_is_new_is_told(wrapped, tmp_path):
    (tmp_path / "kept").write_text("old 1\nold 2\n")
    done = wrapped.run("sh", "-c", 'echo new >>"$BATCHMARK_METRICS"', **{FILE_VARIABLE: "kept"})
    assert lines(done.stdout, METRIC_FILE_PREFIX) == ["new"]
    assert (tmp_path / "kept").read_text() == "old 1\nold 2\nnew\n"


def test_without_awk_the_metrics_file_is_told(wrapped, programs):
    programs.only("sh", "mktemp", "sed", "rm")
    done = wrapped.run("sh", "-c", 'echo one >"$BATCHMARK_METRICS"')
    assert lines(done.stdout, METRIC_FILE_PREFIX) == ["one"]


def test_a_folder_that_can_not_be_written_keeps_no_command_from_running(wrapped, tmp_path):
    wrapped.instead("/dev/shm", tmp_path / "neither")
    done = wrapped.run(
        "sh", "-c", 'echo x >>"$BATCHMARK_METRICS"; exit 3', TMPDIR=str(tmp_path / "no")
    )
    assert done.returncode == 3
    assert done.stderr.decode() == "batchmark: no folder for metrics\n"
    assert lines(done.stdout, METRIC_FILE_PREFIX) == []


def test_shared_memory_takes_the_metrics_where_no_other_folder_does(wrapped, tmp_path):
    (tmp_path / "shm").mkdir()
    wrapped.instead("/dev/shm", tmp_path / "shm")
    done = wrapped.run("sh", "-c", 'echo x >>"$BATCHMARK_METRICS"', TMPDIR=str(tmp_path / "no"))
    assert lines(done.stdout, METRIC_FILE_PREFIX) == ["x"]
    assert list((tmp_path / "shm").iterdir()) == []


def test_facts_begin_lines_though_the_last_output_has_no_end(wrapped):
    done = wrapped.run("printf", "100 %%", **{CHECK: "printf checked; exit 2"})
    assert facts(done.stdout)["end"].split()[0] == "0"
    assert facts(done.stdout)["check"] == "2"


@pytest.mark.parametrize(("check", "code"), [("true", 0), ("test -s made", 0), ("exit 4", 4)])
def test_a_check_has_the_word_after_a_command_that_did_well(wrapped, check, code):
    done = wrapped.run("sh", "-c", "echo x >made", **{CHECK: check})
    assert done.returncode == code
    assert facts(done.stdout)["check"] == str(code)


def test_a_command_that_failed_is_not_checked(wrapped):
    done = wrapped.run("sh", "-c", "exit 3", **{CHECK: "touch checked", OUTPUT: "none"})
    assert done.returncode == 3
    assert not {"check", "sha256"} & facts(done.stdout).keys()
    assert not (wrapped.folder / "checked").exists()


RIGHT = hashlib.sha256(b"x\n").hexdigest()


@pytest.mark.parametrize(
    ("path", "wanted", "code", "told"),
    [
        ("made", None, 0, RIGHT),
        ("made", RIGHT, 0, RIGHT),
        ("made", "0" * 64, 1, RIGHT),
        ("a name", None, 1, "missing"),
        ("a name", RIGHT, 1, "missing"),
        (".", None, 1, "missing"),
    ],
)
def test_a_named_output_must_be_there_and_be_the_right_one(wrapped, path, wanted, code, told):
    variables = {OUTPUT: path} | ({OUTPUT_SHA256: wanted} if wanted else {})
    done = wrapped.run("sh", "-c", "echo x >made", **variables)
    assert done.returncode == code
    assert facts(done.stdout)["sha256"] == told


@pytest.mark.parametrize(("wanted", "code"), [(None, 0), (RIGHT, 1)])
def test_what_nothing_can_hash_is_not_taken_for_the_right_one(wrapped, programs, wanted, code):
    programs.only("sh")
    variables = {OUTPUT: "made"} | ({OUTPUT_SHA256: wanted} if wanted else {})
    done = wrapped.run("sh", "-c", "echo x >made", **variables)
    assert done.returncode == code
    assert facts(done.stdout)["sha256"] == "unknown"


def test_a_failed_checks_code_counts_before_the_checksums(wrapped):
    done = wrapped.run("true", **{CHECK: "exit 4", OUTPUT: "none"})
    assert done.returncode == 4


def test_what_is_told_is_read_as_it_is_meant(wrapped, programs):
    programs(**{"nvidia-smi": SMI})
    tell = f"{until('[ -s smi.pid ]')}; echo x >made; echo '{METRIC}' >>\"$BATCHMARK_METRICS\""
    done = wrapped.run("sh", "-c", tell, **{CHECK: "test -s made", OUTPUT: "made"})
    said = [line for line in done.stdout.decode().splitlines() if line.startswith(MARKS)]
    told = read_lines(MarkedLine(number, line) for number, line in enumerate(said))
    found = told.facts
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA L4"] * 2
    assert (found.exit_code, found.check_exit_code, found.output_sha256) == (0, 0, RIGHT)
    assert (found.gpu_busy.samples, found.began, found.is_over) == (2, True, True)
    assert (len(told.metrics), told.bad_lines) == (1, [])
