"""What the script tells of the machine, and of the metrics that its command wrote."""

import os
import signal
from pathlib import Path

import pytest

from batchmark_job.result.metric import FILE_VARIABLE, MOST_CHARACTERS, MOST_LINES
from tests.builders.files import put
from tests.builders.watched_jobs import KEY
from tests.stand_ins.wrapped_commands import SMI, SMI_WATCHES
from tests.waiting import wait_for

METRIC = '{"metric": "rate", "value": 2, "unit": "1/s", "higher_is_better": true}'


def test_what_is_told_of_the_machine_is_as_the_kernel_says(wrapped, programs, tmp_path):
    programs(threads='echo "${OMP_NUM_THREADS:-12}"')
    wrapped.instead("nproc", "threads")  # which some busyboxes have in themselves
    for name, text in {
        "cpuinfo": "processor\t: 0\nmodel name\t: Stand-in 9 CPU @ 2 GHz\n"
        "processor\t: 1\nmodel name\t: other\n",
        "meminfo": "MemTotal:       24684084 kB\nMemFree: 1 kB\n",
        "sys/kernel/osrelease": "6.1.0-test\n",
        "sys/kernel/random/uuid": f"{KEY}\n",
        "uptime": "12.34 20.00\n",
        "stat": "cpu  10 20 30 1000 50 6 7 8 0 0\ncpu0 1 2 3\n",
    }.items():
        put(tmp_path / "proc", name, text)
    wrapped.instead("/proc", tmp_path / "proc")
    later = "echo 'cpu  110 21 30 1400 60 6 7 9 0 0' >proc/stat; echo 15.84 9 >proc/uptime"
    done = wrapped.sh(later, OMP_NUM_THREADS="1")
    assert done.key == KEY
    told = done.facts
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
    done = wrapped.sh("sleep 0.1; echo works")
    told = done.facts
    assert int(told["memory_kib"]) > 2**16
    assert int(told["threads"]) >= 1
    assert told["kernel"] == os.uname().release
    version, began = told["begin"].split()
    assert version == "1"
    assert float(told["end"].split()[1]) - float(began) >= 0.09
    assert done.text.index(f" begin {told['begin']}") < done.text.index("works")


@pytest.mark.parametrize(
    "stat", ["", "cpu\n", "cpu  a b c\n", "intr 1; exit 9\n", "cpu 1 2 3\n", None]
)
def test_an_odd_proc_or_none_costs_its_facts_alone(wrapped, tmp_path, stat):
    folder = tmp_path / "proc"
    wrapped.instead("/proc", folder if stat is None else put(folder, "stat", stat))
    done = wrapped.sh("exit 3")
    assert (done.code, done.errors, done.facts["end"], done.key) == (3, "", "3", "-")
    assert done.facts.keys() - {"threads", "peak_memory"} == {"begin", "end", "over"}


def test_in_an_image_with_nothing_but_a_shell_a_command_runs(wrapped, programs):
    programs.only("sh")
    done = wrapped.sh('echo works; echo no >"$BATCHMARK_METRICS"; exit 3')
    assert done.codes == (3, 3)
    assert "works\n" in done.text
    assert done.errors == "batchmark: no folder for metrics\n"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [(5_000_000, 9_000_000_000, "9000000000"), (100_000_000, 200_000_000, None)],
)
def test_memory_is_told_where_it_is_the_jobs_alone(wrapped, tmp_path, before, after, told):
    (tmp_path / "peak").write_text(f"{before}\n")
    wrapped.instead("/sys/fs/cgroup/memory.peak", tmp_path / "peak")
    assert wrapped.sh(f"echo {after} >peak").facts.get("peak_memory") == told


def has_ended(process):
    """Whether it has, though nobody may have asked for its code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_gpus_are_named_and_watched_while_the_command_runs(wrapped, programs, tmp_path):
    programs(**{"nvidia-smi": SMI})
    done = wrapped.sh(f"{SMI_WATCHES}; exit 4")
    assert (done.code, done.errors) == (4, "")
    assert done.facts["gpu"] == "NVIDIA L4, 570.1, 23034; NVIDIA L4, 570.1, 23034"
    assert done.facts["gpu_busy"] == "2 50.0 90 3000"
    process = (tmp_path / "smi.pid").read_text().strip()
    wait_for(lambda: has_ended(process), "end of nvidia-smi", 5, every=0.01)
    assert {path.name for path in tmp_path.iterdir()} == {"programs", "smi.pid"}


ONE_SAMPLE = SMI.replace("0, 10, 1000\\n1, [N/A], [N/A]\\n0, 90, 3000\\n", "")


@pytest.mark.parametrize(
    ("driver", "text", "named"),
    [(ONE_SAMPLE, SMI_WATCHES, True), ("echo NVIDIA-SMI has failed; exit 9", "true", False)],
)
def test_one_sample_or_a_broken_driver_tells_nothing(wrapped, programs, driver, text, named):
    assert driver != SMI
    programs(**{"nvidia-smi": driver})
    done = wrapped.sh(text)
    assert (done.code, done.errors) == (0, "")
    assert ("gpu" in done.facts, "gpu_busy" in done.facts) == (named, False)


def test_a_driver_that_hangs_holds_neither_the_job_nor_its_metrics(wrapped, programs, tmp_path):
    programs(**{"nvidia-smi": SMI.replace("exec sleep", "trap '' TERM; exec sleep")})
    said = wrapped.sh(f'{SMI_WATCHES}; echo x >>"$BATCHMARK_METRICS"').text
    os.kill(int((tmp_path / "smi.pid").read_text()), signal.SIGKILL)
    assert said.index("BATCHMARK_METRIC_FILE x") < said.index(" gpu_busy ")
    assert said.endswith(" over\n")


def test_the_metrics_file_is_told_line_by_line_whatever_its_bytes_and_removed(wrapped, tmp_path):
    done = wrapped.sh(f"printf '%s\\n%s' '{METRIC}' last >>\"$BATCHMARK_METRICS\"")
    assert done.metrics == [METRIC, "last"]
    assert done.text.endswith(f"last\nBATCHMARK_JOB {done.key} over\n")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "bad").write_bytes(b"\xff\xfe\x80 \\n %s\n" + METRIC.encode() + b"\r\n\n")
    done = wrapped.sh('cat bad >>"$BATCHMARK_METRICS"')
    told = [line.encode(errors="surrogateescape") for line in done.metrics]
    assert told == [b"\xff\xfe\x80 \\n %s", METRIC.encode(), b""]
    assert done.errors == ""
    (tmp_path / "kept").write_text("old 1\nold 2\n")
    done = wrapped.sh('echo new >>"$BATCHMARK_METRICS"', **{FILE_VARIABLE: "kept"})
    assert done.metrics == ["new"]
    assert (tmp_path / "kept").read_text() == "old 1\nold 2\nnew\n"


def test_without_awk_the_metrics_file_is_told(wrapped, programs):
    programs.only("sh", "mktemp", "sed", "rm")
    assert wrapped.sh('echo one >"$BATCHMARK_METRICS"').metrics == ["one"]


def test_of_many_lines_the_first_are_told_and_no_long_one_reaches_awk(wrapped, programs, tmp_path):
    """The time of mawk grows with the square of a line's length."""
    done = wrapped.sh('seq 20000 >"$BATCHMARK_METRICS"')
    assert done.metrics == [str(number) for number in range(1, MOST_LINES + 1)]
    assert done.facts["metrics_left_out"] == "10000"
    programs(watched=f'tee -a {tmp_path}/taken | awk "$@"')
    wrapped.instead('C awk "$@"', 'C watched "$@"')  # some busyboxes have awk in themselves
    done = wrapped.sh('head -c 3000000 /dev/zero | tr "\\0" x >"$BATCHMARK_METRICS"')
    assert list(map(len, done.metrics)) == [MOST_CHARACTERS + 1]
    assert max(map(len, (tmp_path / "taken").read_bytes().splitlines())) == MOST_CHARACTERS + 1


@pytest.mark.parametrize(
    ("shared", "metrics", "said"),
    [("shm", ["x"], ""), ("neither", [], "batchmark: no folder for metrics\n")],
)
def test_shared_memory_may_take_the_metrics(wrapped, tmp_path, shared, metrics, said):
    """And the command runs."""
    (tmp_path / "shm").mkdir()
    wrapped.instead("/dev/shm", tmp_path / shared)
    done = wrapped.sh('echo x >>"$BATCHMARK_METRICS"; exit 3', TMPDIR=str(tmp_path / "no"))
    assert (done.code, done.metrics, done.errors) == (3, metrics, said)
    assert list((tmp_path / "shm").iterdir()) == []
