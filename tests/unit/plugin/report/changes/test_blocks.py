"""What the report says of changes, re-runs and alerts, on the page and on the terminal."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from batchmark.analysis.comparison import compare
from batchmark.changes.attribution import group_changes
from batchmark.changes.records import Cause, Level
from batchmark.changes.shares import Rate
from batchmark.core.names import target_order
from batchmark.report.blocks import SHOWN_ROWS
from batchmark.report.change_records import (
    MOST_RUNS,
    AlertBoard,
    AlertLine,
    ChangesSection,
    SeriesTrace,
)
from batchmark.report.changes import words as change_words
from batchmark.report.changes.blocks import history_chart
from batchmark.report.model import Report, build_report, render_json
from batchmark.report.tables import alert_table
from batchmark_job.result.document import Device
from tests.builders.alerts import opened
from tests.builders.changed_series import (
    build_conditions,
    build_confirmation,
    build_history,
    build_key,
    build_own_key,
    build_point,
    run_id,
    runs_of,
    sizes,
)
from tests.builders.reports import NOON, Page, render_html, terminal
from tests.builders.runs import PRICES

GPU, CPU = "g5.xlarge", "c5.2xlarge"
WHOLE, COLD = build_own_key(size=64), build_own_key(size=64, start="cold")
RATE = build_own_key(better="higher", metric="throughput", size=64, unit="images/s")
LOSS = build_own_key(better="lower", metric="loss", size=64, unit="")
AMIS = {"before": "ami-1", "after": "ami-2"}
NEW_IMAGE = ("sha256:" + "bb" * 32,)


def build_changes(*points, runs=None, measured=(), confirmations=(), notes=()):
    """Of points at run 20, with histories of 23 runs."""
    runs = runs_of(GPU, CPU, image_digest=NEW_IMAGE) if runs is None else runs
    histories = []
    for point in points:
        values = np.full(23, point.before.median)
        values[20:] = point.after.median
        histories.append(build_history(point.series, values, metric=point.metric))
    found = group_changes(points, runs, measured=measured, confirmations=confirmations)
    return ChangesSection.of(found, histories, confirmations=confirmations, notes=notes)


def build_alert(**fields):
    values = {
        "alert_id": "a1b2c3",
        "kind": "slower",
        "title": "Slower on c5.2xlarge: blur, 3 rows, +12 %",
        "suite": "blog",
        "state": "acknowledged",
        "since_run_id": "scheduled__2026-11-09",
        "since": "suite blog, 2026-11-09 03:00, scheduled",
        "change": 0.12,
        "change_url": "https://airflow.example/dags/change_alert",
        "note": "new OpenCV",
    }
    return AlertLine(**values | fields)


@pytest.fixture
def changes():
    """An environment's change of ten rows with its speedup, a dearer price, and two re-runs."""
    keys = sizes(GPU, "matmul", SHOWN_ROWS + 4)
    ratio = build_key(GPU, against=CPU)
    return build_changes(
        *(build_point(key, 0.1 + number / 50) for number, key in enumerate(keys)),
        build_point(ratio, -0.09, metric="speedup"),
        build_point(build_key(CPU, None), 0.12, metric="price"),
        measured=keys,
        confirmations=(
            build_confirmation(keys[0]),
            build_confirmation(keys[1], "refuted", reruns=(0.1, 0.101), reason="at the old level"),
        ),
        notes=("1 suspect was not re-run: no money left.",),
    )


@pytest.fixture(scope="module")
def compared(run_of_gpu):
    return compare(run_of_gpu, PRICES)


def report_of(compared, **fields):
    return build_report(compared, created_at=NOON, **fields)


def shown(compared, **fields):
    """The page's texts and the terminal's, each in one line."""
    report = report_of(compared, **fields)
    page = " ".join(Page(render_html(report)).texts)
    return [" ".join(text.split()) for text in (page, terminal(report, width=400))]


def test_page_and_terminal_tell_what_changed_by_how_much_and_since_when(compared, changes):
    report = report_of(compared, changes=changes)
    assert "together, +19\N{NO-BREAK SPACE}%" in render_html(report)
    assert "together, +19 %" in terminal(report, width=400)
    for text in shown(compared, changes=changes):
        for expected in (
            "1 slower, 1 dearer, the first since 2026-09-21: 12 of 12 series changed, over up to "
            "23 runs.",
            "1 suspect was not re-run: no money left.",
            "Slower on g5.xlarge: 10 rows together, +19 % (+10 % to +28 % by row)",
            "matmul size 10000, float32",
            "spread 1.1 %, 20 runs",
            "spread 0.9 %, 3 runs",
            "p < 0.0001",
            "suite blog, 2026-09-21 (run-20)",
            "A series is a row's figures on one target",
            "the last run before was run-19",
            "image digest sha256:9a9a9a9a9a9a → sha256:bbbbbbbbbbbb",
            "speedup of g5.xlarge over c5.2xlarge, matmul size 1000, float32: 12.0× → 10.9×, −9.0",
            "the median of 3 runs since, against that of 20 runs before",
            "a million calls: $27.94 → $35.77, matmul size 10000, float32",
            "a month: $139.53 more, if an instance did only this work for all 730 hours, the times "
            "of 10 rows in equal shares",
            "a month: $87.60 more, if an instance ran for all 730 hours",
            "Dearer: c5.2xlarge, $1 an hour → $1.12 an hour, +12 %",
            "nothing recorded changed",
            "2 suspects were re-run: 1 confirmed, 1 refuted.",
            "matmul size 2000, float32: expected 100 ms, measured 112 ms; fresh jobs on 2 "
            "instances: 100 ms, 101 ms",
            "at the old level",
        ):
            assert expected in text, expected


def test_the_section_is_valid_accessible_near_the_top_and_folds_rows_beyond_the_first(
    compared, changes
):
    report = report_of(compared, changes=changes, alerts=AlertBoard(lines=()))
    html = render_html(report, drawn=True)
    Page(html).check()
    assert html.index('id="changes"') < html.index('id="pair-1"')
    assert html.count('<svg class="history') == 11  # not the speedup, which its time explains
    points = [point for change in changes.changes for point in change.points]
    assert points
    assert all(changes.trace(point).series == point.series for point in points)
    assert "<summary>4 more<span" in html
    assert "and 4 more, listed on the report page" in terminal(report)


def test_no_change_is_one_line_that_says_what_was_looked_at(compared):
    nothing = ChangesSection(changes=(), series=1, runs=13)
    for text in shown(compared, changes=nothing):
        assert "Nothing changed in 1 series over up to 13 runs." in text
        assert "re-run" not in text


@pytest.mark.parametrize("alerts", [None, AlertBoard(lines=())])
def test_before_a_change_could_show_that_is_said_once_and_nothing_is_claimed(compared, alerts):
    first = ChangesSection.of((), [build_history(build_key(), [0.1])])
    for text in shown(compared, changes=first, alerts=alerts):
        assert text.count("Not known yet against earlier runs: the longest history has 1 run.") == 1
        assert "Nothing changed" not in text
    assert 'id="changes"' not in render_html(report_of(compared, changes=first, alerts=alerts))


def test_open_alerts_are_listed_with_their_state_and_the_way_to_change_it(compared):
    board = AlertBoard(
        lines=(build_alert(),), precision=Rate.of(11, 12), how_to_change="Say so\nor type it"
    )
    for text in shown(compared, alerts=board):
        assert "Slower on c5.2xlarge: blur, 3 rows, +12 %" in text
        assert "acknowledged" in text
        assert text.count("+12 %") == 1  # once, in the title
        assert "new OpenCV" in text
        assert "a1b2c3" in text
        assert "suite blog, 2026-11-09 03:00, scheduled" in text
        assert "scheduled__2026-11-09" in text
        assert "Say so or type it" in text
        assert "Of 12 alerts judged, 11 were right: 92 %, 95 % interval 65 % to 99 %." in text
    links = Page(render_html(report_of(compared, alerts=board))).attributes("a")
    assert build_alert().change_url in {one["href"] for one in links}


@pytest.mark.parametrize("lines", [(), (build_alert(),)])
def test_that_no_alert_was_judged_is_said_once_there_is_one(compared, lines):
    for text in shown(compared, alerts=AlertBoard(lines=lines)):
        assert text.count("No alerts have been judged yet") == len(lines)


def test_a_fallback_is_said_in_titles_and_verdicts(run_of_laptop):
    key = build_key(
        "g4dn.xlarge", actual_device=Device.CPU, instance_type=None, gpu_model=None, suite="smoke"
    )
    runs = {place: replace(one, fell_back=True) for place, one in runs_of("g4dn.xlarge").items()}
    found = build_changes(
        build_point(key), runs=runs, confirmations=(build_confirmation(key, "refuted"),)
    )
    for text in shown(compare(run_of_laptop, PRICES), changes=found):
        assert "Slower on g4dn.xlarge (ran on the CPU): matmul size 1000" in text
        assert "no cost for g4dn.xlarge: it did not run on EC2" in text
        assert re.search(r"Verdict\W+g4dn.xlarge \(ran on the CPU\) matmul size", text)


@pytest.mark.parametrize(
    ("points", "title"),
    [
        (
            [build_point(key) for key in sizes(CPU, "blur", 2)],
            "Slower on c5.2xlarge: blur, 2 rows, +10 %",
        ),
        (
            [build_point(key) for name in (CPU, GPU) for key in sizes(name, "blur", 2)],
            "Slower on c5.2xlarge and g5.xlarge: blur, 2 rows on each, +10 %",
        ),
        (
            [build_point(build_key(name, "blur")) for name in (CPU, "m5.2xlarge", GPU)],
            "Slower on c5.2xlarge, g5.xlarge and m5.2xlarge: blur size 1000, float32, +10 %",
        ),
        (
            [build_point(build_key(f"c{n}.large", "blur"), -0.1) for n in range(5)],
            "Faster on c0.large, c1.large and 3 more: blur size 1000, float32, −10 %",
        ),
        (
            [build_point(build_key(GPU, against=CPU), 0.5, metric="speedup")],
            "Speedup gained on g5.xlarge over c5.2xlarge: matmul size 1000, float32, +50 %",
        ),
        (
            [build_point(build_key(), 1.5, metric="noise")],
            "Noisier on g5.xlarge: matmul size 1000, float32, +150 %",
        ),
        (
            [build_point(RATE, 0.25)],
            "Worse on g5.xlarge: thumbnails size 64, throughput (images/s), −20 %",
        ),
        ([build_point(LOSS, -0.1)], "Better on g5.xlarge: thumbnails size 64, loss, −10 %"),
        (
            [build_point(RATE, 0.25), build_point(WHOLE, 0.15)],
            "Slower on g5.xlarge: thumbnails, 2 rows, +15 %",
        ),
        (
            [build_point(WHOLE, 0.15), build_point(COLD, 0.05)],
            "Slower on g5.xlarge: thumbnails, 2 rows (1 of cold starts), +10 % (+5.0 % to +15 % by "
            "row)",
        ),
    ],
)
def test_titles(points, title):
    targets = {point.series.target for point in points}
    runs = runs_of(*targets, torch_version=("2.14.0",))
    (change,) = group_changes(points, runs, measured=[])
    assert change_words.title(change) == title


def test_a_title_says_since_which_version():
    runs = runs_of(GPU, commit=("3f2a91c" + "0" * 33,))
    runs |= {
        (run, GPU): build_conditions(19, commit=("8ab0c11",)) for run in (run_id(18), run_id(19))
    }
    (change,) = group_changes([build_point(build_key(), 0.12)], runs, measured=[])
    title = "Slower on g5.xlarge: matmul size 1000, float32, +12 %"
    assert change_words.title(change) == f"{title}, since 3f2a91c (8ab0c11 before)"
    same = change.model_copy(update={"version": change.version_before, "causes": ()})
    assert change_words.title(same) == title
    driver, ami = Cause(name="driver version", before="1", after="2"), Cause(name="AMI", **AMIS)
    both = change.model_copy(update={"causes": (*change.causes, driver, ami)})
    told = "since 3f2a91c (8ab0c11 before) and driver 2 (1 before)"
    assert change_words.title(both) == f"{title}, {told}"
    nearby = driver.model_copy(update={"run_id": "run-7"})
    host = same.model_copy(update={"causes": (nearby, ami)})
    assert change_words.title(host) == f"{title}, since AMI ami-2 (ami-1 before)"


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (
            Cause(name="commit", before="a" * 40, after="b" * 40),
            "commit aaaaaaa → bbbbbbb (git log aaaaaaa..bbbbbbb)",
        ),
        (Cause(name="commit", before="a" * 7, after="`id`"), "commit aaaaaaa → `id`"),
        (Cause(name="image", before="r/" + "i" * 50, after=None), f"image r/{'i' * 50} → none"),
        (
            Cause(name="image digest", before="sha256:" + "9" * 64, after=None, run_id="run-7"),
            "image digest sha256:999999999999 → none, since run run-7",
        ),
        (Cause(name="AMI", before="ami-1", after="ami-1, ami-2"), "AMI ami-1 → ami-1, ami-2"),
    ],
)
def test_causes_in_words(cause, text):
    assert change_words.differences([cause]) == [text]


def test_the_table_of_alerts_tells_each_ones_last_state_and_why():
    (alert,) = opened()
    invalid = alert.become("invalid", at=NOON, by="ada", run_id="manual", note="other tenant")
    table = alert_table([alert, invalid], "Now")
    states = [row[-1] for row in table.rows]
    assert states[0].startswith("open ")
    assert not states[0].endswith(": ")
    assert states[1] == "invalid 2026-11-20 12:00 by ada: other tenant"


def test_a_trace_keeps_the_latest_runs_and_the_change_among_them():
    early = build_point(build_key(), run=30)
    late = build_point(build_key(), run=190)
    history = build_history(build_key(), np.arange(1.0, 201.0))
    first, last = SeriesTrace.of(history, early), SeriesTrace.of(history, late)
    assert (len(first.values), first.first, first.values[first.first]) == (MOST_RUNS, 20, 31.0)
    assert first.recorded_at[-1] < last.recorded_at[-1]
    assert last.values[last.first] == 191.0
    assert last.values[-1] == 200.0


def test_a_trace_leaves_out_what_has_no_figure_and_takes_what_was_recorded_later():
    history = build_history(build_key(), [1.0, np.nan, 2.0, 3.0, 4.0])
    twice = type(history)(
        key=history.key,
        metric="time",
        run_ids=[run_id(0), run_id(1), run_id(2), run_id(2), run_id(20)],
        recorded_at=history.recorded_at[::-1],  # the clock went backwards
        values=history.values,
    )
    trace = SeriesTrace.of(twice, build_point(build_key()))
    assert trace.values == (4.0, 2.0, 1.0)
    assert trace.first == 0
    assert SeriesTrace.of(history, build_point(build_key(), run=99)) is None


def chart_of(key, values, point):
    return history_chart(SeriesTrace.of(build_history(key, values), point), point)


@pytest.mark.parametrize("values", [[0.1], [0.1] * 30, [0.1] * 29 + [1e8]])
def test_a_chart_of_any_values_stays_within_its_frame(values):
    chart = chart_of(build_key(), values, build_point(build_key(), run=len(values) - 1))
    placed = [*chart.before, *chart.after, *(part for x, y, _ in chart.dots for part in (x, y))]
    assert all(0 <= one <= 100 for one in placed)
    assert len(chart.dots) == len(values)


def test_a_metric_is_told_and_drawn_in_its_unit():
    """Its samples are 1 / value, of which less is better."""
    before, after = (Level(median=1 / value, spread=0.01, runs=20) for value in (120, 96))
    point = build_point(RATE, 0.25, before=before, after=after)
    assert change_words.movement(point) == "120 images/s → 96.0 images/s, −20 %"
    chart = chart_of(RATE, [before.median] * 20 + [after.median] * 3, point)
    assert chart.before[2] < chart.after[2]  # from the top: it fell
    assert (chart.low, chart.high) == ("96.0 images/s", "120 images/s")
    found = build_confirmation(RATE, expected=1 / 120, suspect=1 / 96, reruns=(1 / 100,))
    assert change_words.confirmation(found).startswith(
        "thumbnails size 64, throughput (images/s): expected 120 images/s, measured 96.0 images/s"
    )
    assert "fresh jobs on 2 instances: 100 images/s" in change_words.confirmation(found)


def test_a_rerun_of_a_change_on_several_targets_names_its_own():
    keys = [build_key(name) for name in (GPU, CPU)]
    points = [build_point(key, 0.1) for key in keys]
    found = [build_confirmation(key) for key in keys]
    runs = runs_of(GPU, CPU, image_digest=NEW_IMAGE)
    (change,) = group_changes(points, runs, measured=keys, confirmations=found)
    reruns = dict(change_words.facts(change))["re-run"]
    assert [text.partition(", matmul")[0] for text in reruns] == [
        f"confirmed: {target}" for target in sorted((GPU, CPU), key=target_order)
    ]
    (change, _) = group_changes(points, runs_of(GPU), measured=keys, confirmations=found)
    assert dict(change_words.facts(change))["re-run"][0].startswith("confirmed: matmul")


def test_an_own_job_costs_dollars_per_job():
    points = [build_point(RATE, 0.25), build_point(WHOLE, 0.1)]
    (change,) = group_changes(points, runs_of(GPU), measured=[])
    assert change_words.cost(change)[0] == "a job: $0.000028 → $0.000031, thumbnails size 64"
    points.append(build_point(build_own_key(CPU, size=64), 0.1))
    (change,) = group_changes(points[1:], runs_of(GPU, CPU, image_digest=NEW_IMAGE), measured=[])
    assert f"1, {change.points[0].series.target}, thumbnails " in change_words.cost(change)[0]
    (alone,) = group_changes(points[:1], runs_of(GPU), measured=[])
    assert change_words.cost(alone) == ["the cost of a metric is unknown"]


def test_a_wild_run_does_not_flatten_a_chart():
    point = build_point(build_key(), 0.1)
    values = [0.1] * 20 + [0.11] * 3
    calm = chart_of(build_key(), values, point)
    values[5] = 1e8
    wild = chart_of(build_key(), values, point)
    assert calm.before[2] - calm.after[2] == wild.before[2] - wild.after[2]
    assert calm.before[2] - calm.after[2] > 50


def test_hostile_names_stay_text(compared):
    evil = "<script>alert(1)</script>\x1b[31m[bold]"
    key = build_key(CPU, evil, parameters=json.dumps({"<b>": '"><img src=x>'}))
    found = build_changes(build_point(key), confirmations=(build_confirmation(key, reason=evil),))
    board = AlertBoard(lines=(build_alert(title=evil, note=evil, change_url="javascript:x"),))
    report = report_of(compared, changes=found, alerts=board)
    page = Page(render_html(report))
    assert not {name for name, _ in page.tags} & {"script", "img", "b"}
    assert all(one["href"].startswith(("https://", "#")) for one in page.attributes("a"))
    assert "\x1b" not in terminal(report)


def test_a_report_with_changes_survives_as_json_and_version_2_is_still_read(compared, changes):
    report = report_of(compared, changes=changes, alerts=AlertBoard(lines=(build_alert(),)))
    assert Report.model_validate_json(render_json(report)) == report
    document = json.loads(render_json(report_of(compared)))
    del document["changes"], document["alerts"]
    old = Report.model_validate(document | {"report_version": 2})
    assert old.changes is None
    assert 'id="changes"' not in render_html(old)
    assert "Changes:" not in terminal(old)
