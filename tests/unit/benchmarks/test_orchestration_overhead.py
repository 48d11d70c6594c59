"""The benchmark of orchestration: what overhead is, and whom the claim is held against."""

import io

import pytest
from rich.console import Console

from benchmarks.orchestration.overhead import (
    CONTENDERS,
    OURS,
    overhead_seconds,
    share_of_better,
    table,
)
from benchmarks.orchestration.short_jobs import JobTimes

RIVALS = [each for each in CONTENDERS if each.is_rival]
APART = [each for each in CONTENDERS if not each.is_rival and each != OURS]


def test_overhead_leaves_out_the_longest_job_wherever_it_ran():
    times = [JobTimes(10, 15), JobTimes(12, 18.5), JobTimes(17, 22)]
    assert overhead_seconds(20, times) == 13.5


def test_ours_is_held_against_the_better_of_the_two_as_delivered():
    sync, deferrable = RIVALS
    overheads = {OURS: [9, 6, 100], sync: [40, 60, 50], deferrable: [36, 10, 36]}
    eager = {each: [1.0, 1.0, 1.0] for each in APART}
    assert share_of_better({**overheads, **eager}) == pytest.approx(9 / 36)


@pytest.mark.parametrize(
    ("chosen", "shares"), [(CONTENDERS, ["1.00", "0.25"]), (CONTENDERS[1:], ["-", "-"])]
)
def test_the_table_holds_every_contender_against_ours(chosen, shares):
    overheads = {each: [5.0, 4.0, 6.0] if each == OURS else [20.0, 25.0, 15.0] for each in chosen}
    console = Console(file=io.StringIO(), width=120)
    console.print(table(overheads))
    lines = console.file.getvalue().splitlines()
    rows = [line.strip("│ ").split("│") for line in lines if line.startswith("│")]
    assert [row[-1].strip() for row in rows][:2] == shares
    assert [cell.strip() for cell in rows[-1][1:4]] == ["20.0", "15.0", "25.0"]
