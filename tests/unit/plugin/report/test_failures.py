"""What failed in a run, on its page, on a terminal and in a message."""

import pytest

from batchmark.core.failures.endings import LINE_CHARACTERS, MOST_LINES, Ending
from batchmark.report import failures
from tests.builders.hostile import STEERING
from tests.builders.reports import Page, render_html, report_of, terminal
from tests.builders.runs import build_job, build_lost, build_run

HOW = "exit code 3 (the command's own error)"
NOT_RUN = f"not run, because the first job of this side failed: {HOW}"
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/job/1/train.py", line 6, in <module>',
    "FileNotFoundError: weights.bin",
)


def failed(target, lines=TRACEBACK, **fields):
    job = build_job(target, [], **fields)
    return job.model_copy(update={"ending": Ending.of(HOW, lines), "failure": HOW})


def not_run(target, repeat):
    lost = build_lost(target, NOT_RUN, repeat=repeat)
    return lost.model_copy(update={"not_run": True, "seconds": 0.0})


def report(*jobs, lost=()):
    return report_of(build_run(*jobs, lost=lost))


def test_jobs_that_failed_alike_are_told_once_with_the_last_lines_of_the_first():
    later = tuple(line.replace("/job/1", "/job/2") for line in TRACEBACK)
    found = report(failed("g5.xlarge"), failed("c5.2xlarge", later))
    title = f"2 jobs on g5.xlarge, c5.2xlarge failed: {HOW}."
    for shown in (render_html(found), terminal(found)):
        assert shown.count("What failed") == 1
        assert shown.count("FileNotFoundError: weights.bin") == 1
    assert title in terminal(found)
    assert "The last 3 lines of the log of g5.xlarge, blog, repeat 1" in terminal(found)
    assert "    File" in terminal(found), "as it was printed, with its indentation"


def test_what_failed_otherwise_stands_apart_and_the_commonest_is_first():
    jobs = [failed("g5.xlarge", ["boom"]), *(failed("c5.2xlarge", repeat=n) for n in (1, 2))]
    text = terminal(report(*jobs))
    assert text.index(f"2 jobs on c5.2xlarge failed: {HOW}") < text.index("1 job on g5.xlarge")
    many = terminal(report(*(failed("g5.xlarge", [str(n)], repeat=n) for n in range(1, 9))))
    assert many.count("1 job on g5.xlarge failed") == failures.MOST_KINDS
    assert "3 more kinds of failure: see their logs." in many
    assert "What failed" not in render_html(report(build_job("g5.xlarge", [])))


def test_what_was_not_run_is_told_once_and_costs_nothing_and_lost_jobs_keep_their_costs():
    lost = [not_run(target, n) for target in ("g5.xlarge", "c5.2xlarge") for n in (2, 3)]
    found = report(failed("g5.xlarge"), failed("c5.2xlarge"), lost=lost)
    for shown in (render_html(found).replace("&#39;", "'"), terminal(found, 400)):
        text = f"4 more jobs (2 on g5.xlarge, 2 on c5.2xlarge): {NOT_RUN}. This cost nothing."
        assert shown.count(text) == 1
        assert "Lost jobs" not in shown
    assert len(found.cost.jobs) == 2
    gone = build_lost("g5.xlarge", "the log is gone").model_copy(update={"seconds": 7.0})
    text = terminal(report(failed("c5.2xlarge"), lost=[not_run("c5.2xlarge", 2), gone]), 300)
    assert [line for line in text.splitlines() if "the log is gone" in line and "7.00 s" in line]


HOSTILE = ["<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "::error::now", STEERING]


@pytest.mark.parametrize("line", HOSTILE)
def test_a_log_neither_steers_a_terminal_nor_adds_to_a_page(line):
    found = report(failed("g5.xlarge", ["before", line]))
    shown = terminal(found)
    assert all(one.isprintable() for one in shown.splitlines())
    assert "::error::" not in shown
    page = Page(render_html(found))
    assert "script" not in page.tags
    told = "\n".join(failures.message(found.failed, found.lost))
    assert all(one.isprintable() for one in told.split("\n"))


def test_of_a_log_without_end_a_few_short_lines_are_kept_without_colours():
    ending = Ending.of(HOW, [str(n) * 10_000 for n in range(100)])
    assert len(ending.last_lines) == MOST_LINES
    assert {len(line) for line in ending.last_lines} == {LINE_CHARACTERS}
    assert ending.last_lines[-1].startswith("99")
    coloured = Ending.of(HOW, ["\x1b[1;31mboom\x1b[0m\tat once\x1b[2K"])
    assert coloured.last_lines == ("boom    at once",)


def test_a_message_has_the_last_lines_of_the_commonest_failure_alone():
    lines = [f"line {n}" for n in range(30)]
    jobs = [*(failed("g5.xlarge", lines, repeat=n) for n in (1, 2)), failed("c5.2xlarge")]
    told = failures.message(report(*jobs).failed, [not_run("g5.xlarge", 3)])
    assert told[0] == f"2 jobs on g5.xlarge failed: {HOW}."
    assert told[1:11] == [f"  line {n}" for n in range(20, 30)]
    assert told[11:] == [
        f"1 job on c5.2xlarge failed: {HOW}.",
        f"1 more job (1 on g5.xlarge): {NOT_RUN}. This cost nothing.",
    ]
    assert failures.message((), ()) == []
