"""The script that own jobs run below: its command starts as it is, and it ends as its command.

Nobody speaks for it: neither its command nor its check, what they leave, nor the environment. And
all else that the operator submits an own job with.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from batchmark.aws.job_log import MARKS, MarkedLine
from batchmark.core.errors import PlanError
from batchmark.runs.own_jobs.lines import NOT_THE_WRAPPERS, OUTSIDE, read_lines
from batchmark.runs.own_jobs.wrapper import (
    CHECK,
    MOST_CHARACTERS,
    OUTPUT,
    OUTPUT_SHA256,
    ROOM_FOR_BATCH,
    command,
    container_overrides,
    script,
)
from batchmark_job.result.metric import FILE_VARIABLE
from tests.builders.files import put
from tests.builders.watched_jobs import FALSE_FACTS, KEY, facts, plan
from tests.stand_ins.wrapped_commands import (
    INSTALLED,
    SHELLS,
    SMI,
    SMI_WATCHES,
    Done,
    says,
    to_its_end,
    until,
)
from tests.waiting import PATIENCE_SECONDS, wait_for


@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_that_images_have_is_tried(name):
    if name not in INSTALLED:
        pytest.skip(f"{name} is not on the PATH: no test tries it")
    _, *options = SHELLS[name]
    subprocess.run([INSTALLED[name], *options, "-n", "-c", script()], check=True)


def test_the_script_reads_its_own_names_has_nothing_that_batch_replaces_and_must_fit():
    assert not [each for each in ("$(", "$$", "Ref::") if each in script()]
    assert len(script()) < 3100
    assert len(json.dumps(command(["x"]))) < 3400
    assert not [line for line in script().splitlines() if line.startswith(("#", " ")) or not line]
    with pytest.raises(ValueError, match="no command"):
        command([])
    room = MOST_CHARACTERS - ROOM_FOR_BATCH - len(json.dumps(container_of()))
    with pytest.raises(PlanError, match=r"thumbnails's command, .* ECS allows only 8,192: put"):
        container_of(check="x" * room)
    container_of(check="x" * (room - 100))
    known = set(DOCUMENTED)
    words = r"\$\{?([A-Za-z_]\w*)|\b(_[a-z]+)=|(?:read -r|unset)((?: _\w*)+)"
    for read_name, set_name, set_names in re.findall(words, script()):
        assert not read_name or read_name in known
        known |= {set_name, *set_names.split()}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        *((["sh", "-c", f"exit {code}"], code, "") for code in (0, 1, 3, 77, 255)),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL, ""),
        (["no-such-program"], 127, "no-such-program"),
    ],
)
def test_it_ends_as_its_command(wrapped, words, code, said):
    done = wrapped.run(*words)
    assert done.codes == (code, code)
    assert said in done.errors
    assert bool(done.errors) is bool(said)


def test_a_command_is_no_word_of_the_shell_and_its_words_arrive_as_they_are(wrapped, programs):
    programs(_fact="echo a program; exit 5", eval="echo another; exit 6")
    assert wrapped.run("_fact").code == 5
    assert wrapped.run("eval", "exit 9").code == 6
    words = ["a b", "double \" and single '", "two\nlines", "$HOME `id` \\n *", "", "-n", "Ref::x"]
    shown = "import sys; print(repr(sys.argv[1:]))"
    assert repr(words) in wrapped.run(sys.executable, "-c", shown, *words).text.splitlines()


def test_the_environment_of_a_command_is_the_containers_and_the_metrics_file(wrapped):
    shown = set(wrapped.run("env", line="mine", n="2", code="a b").text.splitlines())
    assert {"line=mine", "n=2", "code=a b"} <= shown
    own = {line.partition("=")[0] for line in shown if "=" in line}
    ours = {"PATH", "TMPDIR", "line", "n", "code", FILE_VARIABLE}
    assert own - ours <= {"PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize("sent", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"])
def test_a_signal_reaches_the_command_as_sigterm_and_its_code_counts(wrapped, sent):
    job = wrapped.start("sh", "-c", f"trap 'echo told; exit 7' TERM; echo ready; {until('false')}")
    says(job, "ready")
    job.send_signal(signal.Signals[sent])
    done = to_its_end(job)
    assert done.codes == (7, 7)
    assert "told\n" in done.text


def test_a_command_may_go_on_after_sigterm(wrapped):
    wait = f"trap 'echo told; n=x$n' TERM; echo ready; {until('[ ${#n} -ge 3 ]')}"
    job = wrapped.start("sh", "-c", f"{wait}; exit 5")
    says(job, "ready")
    for _ in range(3):
        job.send_signal(signal.SIGTERM)
        assert job.stdout.readline() == b"told\n"
    assert to_its_end(job).codes == (5, 5)


def test_a_sigterm_just_after_the_command_began_reaches_it_once(wrapped):
    wrapped.instead("_pid=$!\n", f"_pid=$!\ntouch begun\n{until('[ -f sent ]')}\n")
    wrapped.instead("\n_code=\nwhile", "\ntouch over\n_code=\nwhile")
    wait = f"trap 'echo told' TERM; echo ready; {until('[ -f over ]')}"
    job = wrapped.start("sh", "-c", f"{wait}; exit 5")
    says(job, "ready")
    wait_for((wrapped.folder / "begun").exists, "knowledge of the command", 10, every=0.01)
    job.send_signal(signal.SIGTERM)
    assert job.stdout.readline() == b"told\n"
    (wrapped.folder / "sent").touch()
    done = to_its_end(job)
    assert done.code == 5
    assert "told" not in done.text


def test_a_command_that_knows_no_sigterm_or_has_not_begun_ends_by_it(wrapped, programs):
    job = wrapped.start("sh", "-c", "echo ready; exec sleep 60")
    says(job, "ready")
    job.send_signal(signal.SIGTERM)
    assert to_its_end(job).codes == (128 + signal.SIGTERM,) * 2
    programs(**{"nvidia-smi": "touch asked; sleep 0.5; exit 9"})
    job = wrapped.start("sleep", "60")
    wait_for((wrapped.folder / "asked").exists, "asked", every=0.01)
    job.send_signal(signal.SIGTERM)
    assert to_its_end(job).codes == (128 + signal.SIGTERM,) * 2


def test_children_that_stay_behind_do_not_keep_it(wrapped, tmp_path):
    with (tmp_path / "out").open("wb") as out:
        job = wrapped.start("sh", "-c", "sleep 3600 & echo $! >left; exit 3", stdout=out)
        try:
            assert job.wait(timeout=PATIENCE_SECONDS) == 3
        finally:
            os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


def test_100_mb_of_output_pass_unharmed(wrapped):
    size = 100_000_000
    started = time.monotonic()
    with wrapped.start("head", "-c", str(size), "/dev/zero") as job:
        said = job.stdout.read()
    assert time.monotonic() - started < 30
    begun, _, rest = said.partition(b"\0")
    counted = hashlib.sha256(rest[: size - 1])
    assert counted.digest() == hashlib.sha256(bytes(size - 1)).digest()
    assert Done(job.returncode, rest[size - 1 :]).codes == (0, 0)
    assert "begin" in Done(0, begun).facts


def test_facts_begin_lines_though_the_last_output_has_no_end(wrapped):
    done = wrapped.run("printf", "100 %%", **{CHECK: "printf checked; exit 2"})
    assert (done.codes[1], done.facts["check"]) == (0, "2")


@pytest.mark.parametrize(("check", "code"), [("true", 0), ("test -s made", 0), ("exit 4", 4)])
def test_a_check_has_the_word_after_a_command_that_did_well(wrapped, check, code):
    done = wrapped.sh("echo x >made", **{CHECK: check})
    assert (done.code, done.facts["check"]) == (code, str(code))
    assert wrapped.run("true", **{CHECK: check, OUTPUT: "none"}).code == (code or 1)
    done = wrapped.sh("exit 3", **{CHECK: f"touch checked; {check}", OUTPUT: "none"})
    assert done.code == 3
    assert not {"check", "sha256"} & done.facts.keys()
    assert not (wrapped.folder / "checked").exists()


RIGHT = hashlib.sha256(b"x\n").hexdigest()


def with_output(path, wanted):
    return {OUTPUT: path} | ({OUTPUT_SHA256: wanted} if wanted else {})


@pytest.mark.parametrize(
    ("path", "wanted", "code", "told"),
    [
        ("made", None, 0, RIGHT),
        ("made", RIGHT, 0, RIGHT),
        ("made", "0" * 64, 1, RIGHT),
        *((path, wanted, 1, "missing") for path in ("a name", ".") for wanted in (None, RIGHT)),
    ],
)
def test_a_named_output_must_be_there_and_be_the_right_one(wrapped, path, wanted, code, told):
    done = wrapped.sh("echo x >made", **with_output(path, wanted))
    assert (done.code, done.facts["sha256"]) == (code, told)


@pytest.mark.parametrize(("wanted", "code"), [(None, 0), (RIGHT, 1)])
def test_what_nothing_can_hash_is_not_taken_for_the_right_one(wrapped, programs, wanted, code):
    programs.only("sh")
    done = wrapped.sh("echo x >made", **with_output("made", wanted))
    assert (done.code, done.facts["sha256"]) == (code, "unknown")


METRIC = '{"metric": "rate", "value": 2, "unit": "1/s", "higher_is_better": true}'


def test_what_is_told_is_read_as_it_is_meant(wrapped, programs):
    programs(**{"nvidia-smi": SMI})
    tell = f"{SMI_WATCHES}; echo x >made; echo '{METRIC}' >>\"$BATCHMARK_METRICS\""
    told = read(wrapped.sh(tell, **{CHECK: "test -s made", OUTPUT: "made"}))
    found = told.facts
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA L4"] * 2
    assert (found.exit_code, found.check_exit_code, found.output_sha256) == (0, 0, RIGHT)
    assert (found.gpu_busy.samples, found.began, found.is_over) == (2, True, True)
    assert (len(told.metrics), told.bad_lines) == (1, [])


def container_of(**changes):
    return container_overrides(plan(**changes))


def test_a_job_runs_below_a_shell_or_as_it_is_and_asks_only_for_what_differs():
    assert container_of() == {"command": command(["python", "convert.py"])}
    assert container_of(shell=False) == {"command": ["python", "convert.py"]}
    assert container_of(shell=False, command=()) == {}
    checked = container_of(environment={"N": "1"}, check="test -s out", output="out")
    assert [tuple(each.values()) for each in checked["environment"]] == [
        ("N", "1"),
        ("BATCHMARK_CHECK", "test -s out"),
        ("BATCHMARK_OUTPUT", "out"),
    ]
    asked = container_of(vcpus=2.0, memory_mib=512, gpus=1)["resourceRequirements"]
    assert [tuple(each.values()) for each in asked] == [
        ("VCPU", "2"),
        ("MEMORY", "512"),
        ("GPU", "1"),
    ]


# That the script may read beside its own names: Batchmark's, and what every shell sets itself.
DOCUMENTED = {FILE_VARIABLE, CHECK, OUTPUT, OUTPUT_SHA256, "PWD"}
NAMES = set(re.findall(r"\b_[a-z]+\b", script()))
KEYS = ("", "- ", f"{KEY} ")
FORGERY = "\n".join(facts(*(f"{key}{fact}" for key in KEYS for fact in FALSE_FACTS)))
FORGE = f"cat <<'END'\n{FORGERY}\nEND\n"


def read(done):
    """What Batchmark makes of all that was printed."""
    said = [line for line in done.text.splitlines() if line.startswith(MARKS)]
    return read_lines(MarkedLine(number, line) for number, line in enumerate(said))


def test_what_command_check_and_a_process_left_behind_forge_is_named_and_changes_nothing(wrapped):
    left = f"({until('[ -e checking ]')}; {FORGE}touch forged) &\n"
    check = f"{FORGE}touch checking; {until('[ -e forged ]')}; exit 4"
    done = wrapped.sh(f"{FORGE}{left}echo x >made", **{CHECK: check, OUTPUT: "made"})
    told = read(done)
    known = told.facts
    assert (known.exit_code, known.check_exit_code) == (0, 4)
    assert known.output_sha256 == hashlib.sha256(b"x\n").hexdigest()
    assert f"{known.began_uptime:.2f}" == done.facts["begin"].split()[1]
    assert f"{known.ended_uptime:.2f}" == done.facts["end"].split()[1]
    assert (known.gpu_busy, told.metrics_left_out, told.metrics) == (None, 0, [])
    assert {line.problem for line in told.bad_lines} == {NOT_THE_WRAPPERS}
    assert len(told.bad_lines) == 3 * len(FORGERY.splitlines())


def test_no_program_finds_the_key_in_arguments_or_variables(wrapped, programs, tmp_path):
    """Any process may read those of all others of its user."""
    called = ("awk", "cut", "mktemp", "nproc", "rm", "sed", "sh", "sha256sum", "timeout", "wc")
    note = f'{{ env; echo "$0 $*"; }} >>{tmp_path}/noted\n'
    programs(**{name: f'{note}exec {shutil.which(name)} "$@"' for name in called})
    programs(**{"nvidia-smi": note + SMI})
    look = "cat /proc/$PPID/environ /proc/$PPID/cmdline >>noted"
    done = wrapped.sh(
        f"{look}; {SMI_WATCHES}; echo x >made; echo x >>$BATCHMARK_METRICS",
        **{CHECK: look, OUTPUT: "made", "_job": "preset", "SHELLOPTS": "allexport"},
    )
    assert {"gpu_busy", "check", "sha256"} <= done.facts.keys()
    noted = (tmp_path / "noted").read_text(errors="replace")
    assert "query-gpu" in noted
    assert len(done.key) == 36
    assert done.key not in noted


@pytest.mark.parametrize("installed", [True, False])
def test_names_of_its_own_in_the_environment_change_nothing(wrapped, programs, installed):
    if not installed:
        programs.only("sh")
    assert len(NAMES) > 15
    plain = wrapped.sh("exit 3")
    preset = wrapped.sh("exit 3", **dict.fromkeys(NAMES, "x"))
    assert (preset.code, preset.errors) == (plain.code, plain.errors)
    assert preset.facts.keys() - {"busy"} == plain.facts.keys() - {"busy"}
    assert "x" not in " ".join(preset.facts.values()).split()


@pytest.mark.parametrize("path", ["{outside}", "../outside/told", "in/../../outside/told"])
def test_a_file_of_metrics_outside_the_jobs_folder_is_refused(wrapped, tmp_path, path):
    wrapped.folder = tmp_path / "job"
    (wrapped.folder / "in").mkdir(parents=True)
    outside = put(tmp_path, "outside/told", "secret") / "outside" / "told"
    given = path.format(outside=outside)
    done = wrapped.sh('echo mine >>"$BATCHMARK_METRICS"', **{FILE_VARIABLE: given})
    assert (done.code, done.metrics) == (0, ["mine"])
    assert "secret" not in done.text
    bad, _ = read(done).bad_lines
    assert (bad.text, bad.problem) == (given, OUTSIDE)
    inside = str(wrapped.folder / "mine")  # by its whole path
    done = wrapped.sh('echo "$BATCHMARK_METRICS" >mine', **{FILE_VARIABLE: inside})
    assert done.metrics == [inside]
    assert "metrics_outside" not in done.facts
