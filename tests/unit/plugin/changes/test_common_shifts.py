"""Small shifts that the rows of a target have in common."""

from dataclasses import replace

import numpy as np
import pytest

from batchmark.changes.attribution import group_changes
from batchmark.changes.common_shifts import (
    FEWEST_ROWS,
    Shift,
    common_series,
    shifts_of,
    with_common,
)
from batchmark.changes.detection import detect_changes
from batchmark.changes.steps import LevelChange
from batchmark.changes.timelines import timeline
from tests.builders.changed_series import (
    LEVEL,
    build_history,
    build_key,
    build_own_key,
    noisy,
    run_id,
    sizes,
)

ROWS, BEFORE, AFTER = 12, 40, 10


def rows_of(target="g5.xlarge", *, shifts, log_sd=0.04, count=BEFORE + AFTER):
    """One row for each shift of its level from the run BEFORE on."""
    return [
        build_history(
            key,
            noisy(count, seed=160 + number, log_sd=log_sd)
            * np.where(np.arange(count) >= BEFORE, 1 + shift, 1),
        )
        for number, (key, shift) in enumerate(
            zip(sizes(target, "matmul", len(shifts)), shifts, strict=True)
        )
    ]


def test_what_no_row_shows_by_itself_its_target_does():
    rows = rows_of(shifts=[0.035] * ROWS)
    assert sum(len(detect_changes([row])) for row in rows) == 1

    points = detect_changes(rows)

    assert {(point.kind, point.first_run_id) for point in points} == {("slower", run_id(BEFORE))}
    assert (len(points), sum(point.common for point in points)) == (11, 10)
    (change,) = group_changes(points, {}, measured=[row.key for row in rows])
    assert change.environment


def test_rows_that_did_not_move_with_it_or_are_another_targets_are_left_out():
    points = detect_changes(rows_of(shifts=[0.06] * 8 + [0.0] * 4, log_sd=0.02))

    moved = {key.row for key in sizes("g5.xlarge", "matmul", 12)[:8]}
    assert moved == {point.series.row for point in points}

    points = detect_changes(
        rows_of(shifts=[0.04] * ROWS) + rows_of("c5.2xlarge", shifts=[0.0] * ROWS)
    )
    assert {point.series.target for point in points} == {"g5.xlarge"}


def test_a_row_that_shows_it_alone_keeps_its_own_change():
    points = detect_changes(rows_of(shifts=[0.3] + [0.035] * (ROWS - 1)))

    alone = [point.series.row for point in points if not point.common]
    assert sizes("g5.xlarge", "matmul", 1)[0].row in alone
    assert len(alone) == 2
    assert len(points) == 11


@pytest.mark.parametrize("shifts", [[0.0] * ROWS, [0.5] + [0.0] * (ROWS - 1)])
def test_one_row_or_none_is_no_common_shift(shifts):
    assert not any(point.common for point in detect_changes(rows_of(shifts=shifts)))


def test_it_is_the_median_over_the_rows_of_how_far_each_is_off_its_own():
    rows = [
        build_history(key, LEVEL * np.array(factors))
        for key, factors in zip(
            sizes("g5.xlarge", "matmul", 3),
            ([1, 1, 1, 1, 1, 1, 1.2], [5, 5, 5, 5, 5, 5, 5.5], [2, 2, 2, 2, 2, 2, 9]),
            strict=True,
        )
    ]

    (common,) = common_series(rows)

    assert common.rows == [0, 1, 2]
    assert common.series.run_ids == [run_id(number) for number in range(7)]
    assert common.series.values == pytest.approx([1] * 6 + [1.2])
    assert common.series.key.workload is None


def test_a_hump_of_all_rows_begins_and_ends_for_each():
    runs = np.arange(92)
    hump = np.where((runs >= 60) & (runs < 72), 0.96, 1)
    rows = [
        build_history(key, noisy(92, seed=number, log_sd=0.03) * hump)
        for number, key in enumerate(sizes("g5.xlarge", "matmul", ROWS))
    ]

    points = detect_changes(rows)

    kinds = [point.kind for point in points]
    assert min(kinds.count("faster"), kinds.count("slower")) >= 10


def line_of(*levels):
    """The figures of a row with levels of so many runs each."""
    logs = np.concatenate([np.full(runs, level) for runs, level in levels])
    return timeline(build_history(build_key(), np.exp(logs)))


def test_a_rows_own_change_that_begins_late_is_the_same_one_and_a_second_one_stays():
    line = line_of((20, 0), (10, 0.05))
    shift = Shift(frozenset(line.run_ids[20:]), 0.05, None)

    assert with_common([], line, [shift]) == [LevelChange(20, 30, common=True)]
    assert with_common([LevelChange(26, 30)], line, [shift]) == [LevelChange(20, 30, common=True)]
    assert with_common([LevelChange(22, 26)], line, [shift]) == [LevelChange(22, 26)]
    assert with_common([], line, [shift._replace(log_shift=0.2)]) == []
    assert with_common([], line, [shift._replace(log_shift=-0.05)]) == []

    line = line_of((20, 0), (15, 0.05), (10, 0.4))
    shift = Shift(frozenset(line.run_ids[20:]), 0.05, None)
    found = with_common([LevelChange(35, 40)], line, [shift])
    assert found == [LevelChange(20, 35, common=True), LevelChange(35, 40)]


def test_shifts_that_came_to_nothing_are_left_out():
    common = line_of((20, 0), (4, 0.07), (5, 0))

    assert shifts_of(common, [], 0.02) == []
    assert shifts_of(common, [LevelChange(20, 24)], 0.02) == []
    shift, *_ = shifts_of(common, [LevelChange(20, 24), LevelChange(24, 29)], 0.02)
    assert shift.log_shift == pytest.approx(0.07)
    assert shift.run_ids == frozenset(common.run_ids[20:])


def test_rows_that_come_or_go_leave_the_others_theirs():
    rows = rows_of(shifts=[0.035] * ROWS)
    alone = {point.series for point in detect_changes(rows)}
    others = rows_of("g5.xlarge", shifts=[0.0] * (2 * ROWS))[ROWS:]
    young = [part(row, slice(BEFORE + AFTER - 7, None)) for row in others]
    retired = [part(row, slice(0, 20)) for row in others]

    assert {point.series for point in detect_changes([*rows, *young])} == alone
    assert {point.series for point in detect_changes([*rows, *retired])} == alone


def part(row, runs):
    return replace(
        row, run_ids=row.run_ids[runs], recorded_at=row.recorded_at[runs], values=row.values[runs]
    )


def test_few_rows_few_runs_disjoint_runs_or_metrics_have_nothing_in_common():
    rows = rows_of(shifts=[0.04] * (FEWEST_ROWS - 1))
    young = rows_of(shifts=[0.0] * ROWS, count=6)
    metrics = [
        replace(row, key=build_own_key(better="lower", metric="loss", size=number, unit=""))
        for number, row in enumerate(rows_of(shifts=[0.0] * ROWS))
    ]

    assert common_series(rows) == common_series(young) == common_series([]) == []
    assert common_series(metrics) == []

    rows = rows_of(shifts=[0.0] * 3, count=24)
    rows = [part(row, slice(8 * number, 8 * number + 8)) for number, row in enumerate(rows)]
    assert detect_changes(rows) == []


def test_runs_that_measured_few_of_the_rows_do_not_count():
    rows = rows_of(shifts=[0.0] * 4, count=20)
    for row in rows[1:]:
        row.values[5] = np.nan

    (common,) = common_series(rows)

    assert run_id(5) not in common.series.run_ids
    assert len(common.series.run_ids) == 19
