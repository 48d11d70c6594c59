"""Nobody speaks for the script: neither its command nor its check, what they leave, nor the
environment."""

import hashlib
import re
import shutil

import pytest

from batchmark.aws.job_log import MARKS, MarkedLine
from batchmark.runs.own_jobs.lines import NOT_THE_WRAPPERS, OUTSIDE, read_lines
from batchmark.runs.own_jobs.wrapper import CHECK, OUTPUT, OUTPUT_SHA256, script
from batchmark_job.result.metric import FILE_VARIABLE, MOST_CHARACTERS
from tests.builders.files import put
from tests.builders.watched_jobs import FALSE_FACTS, KEY, facts
from tests.stand_ins.wrapped_commands import SMI, SMI_WATCHES, until

# That the script may read beside its own names: Batchmark's, and what every shell sets itself.
DOCUMENTED = {FILE_VARIABLE, CHECK, OUTPUT, OUTPUT_SHA256, "PWD"}
NAMES = set(re.findall(r"\b_[a-z]+\b", script()))
FORGERY = "\n".join(
    facts(*(f"{key}{fact}" for key in ("", "- ", f"{KEY} ") for fact in FALSE_FACTS))
)
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


def test_it_reads_what_it_set_or_unset_before_and_batchmarks_variables_alone():
    known = set(DOCUMENTED)
    words = r"\$\{?([A-Za-z_]\w*)|\b(_[a-z]+)=|(?:read -r|unset)((?: _\w*)+)"
    for read_name, set_name, set_names in re.findall(words, script()):
        assert not read_name or read_name in known
        known |= {set_name, *set_names.split()}


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


def test_no_long_line_of_metrics_reaches_awk(wrapped, programs, tmp_path):
    """The time of mawk grows with the square of a line's length."""
    programs(watched=f'tee -a {tmp_path}/taken | awk "$@"')
    wrapped.instead('C awk "$@"', 'C watched "$@"')  # some busyboxes have awk in themselves
    done = wrapped.sh('head -c 3000000 /dev/zero | tr "\\0" x >"$BATCHMARK_METRICS"')
    assert list(map(len, done.metrics)) == [MOST_CHARACTERS + 1]
    assert max(map(len, (tmp_path / "taken").read_bytes().splitlines())) == MOST_CHARACTERS + 1
