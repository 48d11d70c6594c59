"""What a newest run is held against: the same in `history show`, the trends and the overview."""

import pytest

from batchmark.changes.metric import Metric
from batchmark.changes.standing import standings
from batchmark.core import formatting
from batchmark.history.overview import overview
from batchmark.history.series import series_histories
from batchmark.report.site.trends import median_speedups, trends
from tests.builders.history import CPU, GPU, measured, table

ON_CPU = 0.2
SAME, ODD, OPEN = "within the noise", "beyond the noise", "not known yet"
UP = [(20, 0.010), (12, 0.013)]
# Runs and seconds of each level; the newest run; what it is held against, and what that is worth;
# first run of the last change and the level that it began from.
SHAPES = {
    "it never changed": ([(30, 0.010)], 0.01004, 0.010, SAME, None),
    "an odd run": ([(30, 0.010)], 0.014, 0.010, ODD, None),
    "two runs": ([(2, 0.010)], 0.014, 0.010, OPEN, None),
    "a change that nobody knows yet": ([(20, 0.010), (2, 0.013)], 0.013, 0.010, ODD, None),
    "it changed": (UP, 0.01304, 0.013, SAME, (20, 0.010)),
    "it changed lately": ([(20, 0.010), (4, 0.013)], 0.01304, 0.013, SAME, (20, 0.010)),
    "it changed, and an odd run": (UP, 0.020, 0.013, ODD, (20, 0.010)),
    "it changed, and a run as before": (UP, 0.010, 0.013, ODD, (20, 0.010)),
    "two changes": ([*UP, (12, 0.017)], 0.01704, 0.017, SAME, (32, 0.013)),
    "a change that went back": ([*UP, (12, 0.010)], 0.01004, 0.010, SAME, (32, 0.013)),
}


def shaped(levels, newest):
    figures = [seconds for runs, seconds in levels for _ in range(runs)]
    return [measured(one, GPU, day=day) for day, one in enumerate([*figures, newest])]


def shown(rows):
    """The lines of `history show` on the GPU's rows."""
    lines = [" ".join(line.split()) for line in overview("blog", table(rows))]
    start = lines.index("matmul size 1000, float32, g5.xlarge")
    return lines[start + 1 :]


def trend(rows):
    found = series_histories(table(rows), Metric.TIME)
    every = trends(found, [], {}, standings=standings(found))
    return [one.before for one in every if one.key.target == GPU["target"]]


def pairs(rows):
    found = median_speedups(series_histories(table(rows), Metric.SPEEDUP))
    return [one.before for one in trends(found, [], {}, standings=standings(found))]


def day(number):
    return f"{measured(1.0, GPU, day=number)['recorded_at']:%Y-%m-%d}"


def told(change, level, text):
    """The words for a change from one level to another; none without one."""
    if change is None:
        return []
    first, old = change
    share = formatting.change(level / old - 1)
    return [f"level {text(level)} since {day(first)}, {share} from {text(old)}"]


@pytest.mark.parametrize(
    ("levels", "newest", "level", "word", "change"), SHAPES.values(), ids=SHAPES
)
def test_a_newest_run_is_held_against_its_level_in_all_views(levels, newest, level, word, change):
    rows = shaped(levels, newest)
    runs = len(rows)
    rows += [measured(ON_CPU, CPU, day=day) for day in range(runs)]
    seconds = formatting.seconds
    share = formatting.change(newest / level - 1)
    moved = told(change, level, seconds)
    assert shown(rows) == [f"{runs} {seconds(newest)} {seconds(level)} {share}, {word}", *moved]
    assert trend(rows) == [
        "; ".join([f"{share} against the previous median, {seconds(level)}, {word}", *moved])
    ]
    level, newest = ON_CPU / level, ON_CPU / newest
    if change:
        change = (change[0], ON_CPU / change[1])
    moved = told(change, level, formatting.multiple)
    share = formatting.change(newest / level - 1)
    before = f"{share} against the previous median, {formatting.multiple(level)}, {word}"
    assert pairs(rows) == ["; ".join([before, *moved])]


def test_a_run_that_its_fresh_jobs_make_a_change_is_held_against_the_level_before():
    rows = shaped([(20, 0.010)], 0.013)
    rows += [measured(0.013, GPU, day=20, purpose="confirmation") for _ in range(3)]
    change = f"level 13.0 ms since {day(20)}, +30 % from 10.0 ms"
    assert shown(rows) == ["21 13.0 ms 10.0 ms +30 %, a change", change]
    assert trend(rows) == [change]
    rows.append(measured(0.01304, GPU, day=21))
    assert shown(rows) == ["22 13.0 ms 13.0 ms +0.3 %, not known yet", change]
    assert trend(rows) == [f"+0.3 % against the previous median, 13.0 ms, not known yet; {change}"]


def test_the_version_of_a_change_is_named_as_is_what_the_newest_run_did_not_measure():
    rows = shaped([(20, 0.010), (10, 0.013)], 0.01304)
    for number, row in enumerate(rows):
        row |= {"commit": "8ab0c11" if number < 20 else "3f2a91c", "label": "nightly"}
    assert shown(rows)[-1] == "since 3f2a91c (8ab0c11 before)"
    lines = list(overview("blog", table(rows)))
    assert lines[3] == "    commit 3f2a91c, label nightly"
    rows = shaped([(20, 0.010)], 0.01004)
    rows.append(measured(None, GPU, day=21, status="failed"))
    lines = list(overview("blog", table(rows)))
    assert lines[0] == "suite blog: 22 runs, newest first"
    assert [lines[1][-14:], lines[2].strip()] == ["0 measurements", "scheduled__021"]
    assert shown(rows) == [f"21 10.0 ms 10.0 ms +0.4 %, {SAME}", "not measured in the newest run"]
