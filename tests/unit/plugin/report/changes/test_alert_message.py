"""A run's message: what it says and that SNS takes it; and the alerts as the report lists them."""

import json
from dataclasses import replace

import pytest

from batchmark.changes.alerts.records import precision
from batchmark.changes.alerts.sns_limits import (
    SUBJECT_CHARACTERS,
    TEXT_BYTES,
    cut,
    size,
    subject_line,
)
from batchmark.changes.records import Cause
from batchmark.changes.shares import Rate
from batchmark.report.changes.alert_message import MessageContext, alert_board, build_message
from batchmark.report.changes.words import MOST_POINTS, NOT_THE_HOST, causes
from tests.builders.alerts import (
    NOW,
    change,
    in_state,
    merged,
    moved,
    opened,
    point,
    run_id,
    series,
    some_series,
)
from tests.builders.changed_series import build_confirmation, build_own_key

RUN = "suite blog, 2026-11-20 09:30"
CONTEXT = MessageContext(
    installation="lab",
    run=RUN,
    report_url="https://results.example/report.html",
    log_urls={("blog", "g5.xlarge"): "https://logs.example/job-1"},
    airflow_url="https://airflow.example/",
)


def build(*changes, alerts=(), context=CONTEXT, **settings):
    found = merged(list(changes), list(alerts), **settings)
    return build_message(
        found, alerts, context, run_id=run_id(30), created_at=NOW, channels=("sns", "apprise:chat")
    )


FAILED = ["2 jobs on g5.xlarge failed: exit code 3 (the command's own error).", "  boom\x1b[2K"]


def test_a_run_that_failed_says_so_with_its_last_lines_below_what_changed():
    message = build(context=replace(CONTEXT, failures=FAILED))
    assert message.subject == f"Batchmark lab: {FAILED[0]}"
    head, told, _ = message.text.split("\n\n")
    assert head == f"Batchmark lab, {RUN}: failed."
    assert told == f"FAILED\n{FAILED[0]}\n  boom\N{SYMBOL FOR ESCAPE}[2K"
    assert (message.attributes, message.alert_ids) == (
        {"kind": ("failed",), "state": ("failed",)},
        [],
    )
    # A change comes first.
    message = build(change(point()), context=replace(CONTEXT, failures=FAILED))
    assert message.subject.startswith("Batchmark lab: Slower on g5.xlarge")
    assert message.text.index("FAILED\n") < message.text.index("SLOWER\n")
    assert message.attributes["kind"] == ("slower", "failed")


def test_an_alert_says_all_there_is_to_know():
    confirmed = build_confirmation(
        series(), expected=0.010, suspect=0.012, reruns=(0.0119, 0.0121, 0.0118), hosts=3
    )
    told = change(
        point(),
        confirmations=(confirmed,),
        causes=(
            Cause(name="driver version", before="580.95.05", after="590.10.01"),
            Cause(name="image digest", before=None, after="sha256:9a"),
        ),
    )
    (alert,) = merged([told]).opened
    message = build(told)
    assert message.subject.startswith(
        "Batchmark lab: Slower on g5.xlarge: matmul size 5000, float32, +20 %"
    )
    assert message.text == (
        f"Batchmark lab, {RUN}: 1 slower.\n"
        "\n"
        "SLOWER\n"
        "* Slower on g5.xlarge: matmul size 5000, float32, +20 %, since driver 590.10.01 "
        "(580.95.05 before)\n"
        "  matmul size 5000, float32: 10.0 ms → 12.0 ms, +20 % (spread 0.8 %, 19 runs; then "
        "spread 1.1 %, 3 runs; p = 0.0004)\n"
        "  suite: blog\n"
        "  since: suite blog, 2026-10-19 (run-20); the last run before was run-19\n"
        "  figures: the median of 3 runs since, against that of 19 runs before\n"
        "  what differs: driver version 580.95.05 → 590.10.01; image digest none → sha256:9a\n"
        "  re-run: confirmed: matmul size 5000, float32: expected 10.0 ms, measured 12.0 ms; fresh "
        "jobs on 3 instances: 11.9 ms, 12.1 ms, 11.8 ms\n"
        "  cost: a month: $12.40 more, if an instance did only this work for all 730 hours\n"
        "  log of g5.xlarge: https://logs.example/job-1\n"
        f"  alert: {alert.id}\n"
        "\n"
        "Report: https://results.example/report.html\nRun id: run-30\n"
        "\n"
        "Acknowledge an alert, or mark it as invalid or fixed, on its page, "
        f"https://airflow.example/batchmark/alerts#{alert.id}, or from a shell:\n"
        "airflow dags trigger change_alert -c "
        f'\'{{"alert_id": "{alert.id}", "state": "acknowledged"}}\''
    )
    assert message.attributes == {"kind": ("slower",), "state": ("open",)}
    assert [one.channel for one in message.deliveries] == ["sns", "apprise:chat"]


@pytest.mark.parametrize(
    ("other", "also", "told"),
    [
        ({"target": "c5.2xlarge"}, "image digest", True),
        ({"target": "c5.2xlarge"}, "driver version of g5.xlarge", False),
        ({"target": "g6.xlarge"}, "image digest", False),
        ({"target": "c5.2xlarge", "instance_type": None}, "image digest", False),
    ],
)
def test_gpu_and_cpu_that_moved_with_the_code_speak_against_the_host(other, also, told):
    found = [Cause(name=name, before="a", after="b") for name in ("commit", also)]
    both = change(point(), point(of=series(**other)), causes=found)
    assert (NOT_THE_HOST in causes(both)) is told


def test_a_run_with_nothing_new_has_no_message_and_what_came_and_went_is_told_as_recovered_only():
    assert build() is None
    assert build(change(), alerts=opened()) is None
    message = build(change(), change(point(26, 0.012, 0.010)))
    assert message.subject.startswith("Batchmark lab: recovered: Slower on g5.xlarge: matmul")
    assert "SLOWER" not in message.text
    assert message.new_alerts == ()
    assert len(message.opened) == 1


def test_kinds_stand_in_groups_the_worst_first():
    alerts = opened(change(point(5, of=series(dtype="float16"))))
    message = build(
        change(point(28, 0.012, 0.0101, of=series(dtype="bfloat16"))),
        change(point(28, 0.012, 0.0101, of=series(dtype="float16"))),
        change(point(21, 12.3, 10.1, metric="speedup", of=series(against="c5.2xlarge"))),
        change(point(21, 0.01, 0.05, metric="noise")),
        change(point(22, 1.006, 1.046, metric="price", of=series(workload=None))),
        change(),
        change(point(of=series(target="g6.xlarge"))),
        alerts=alerts,
    )
    headings = [line for line in message.text.splitlines() if line.isupper()]
    assert headings == ["SLOWER", "DEARER", "NOISIER", "SPEEDUP LOST", "RECOVERED", "IMPROVED"]
    assert message.subject == (
        "Batchmark lab: 2 slower, 1 dearer, 1 noisier, 1 speedup lost, 1 recovered, 1 improved"
    )
    assert "price: $1.006 an hour → $1.046 an hour, +4.0 % (" in message.text
    assert "1.0 % → 5.0 %, +400 % (" in message.text
    assert "12.3× → 10.1×, −18 % (" in message.text
    assert message.attributes["state"] == ("open", "recovered", "improved")


def test_a_recovered_alert_says_since_when_it_was_there_and_how_many_series_are_back():
    (alert,) = opened()
    message = build(change(point(26, 0.012, 0.0101)), alerts=[in_state(alert, "acknowledged")])
    assert (
        "RECOVERED\n"
        "* Slower on g5.xlarge: matmul size 5000, float32, +20 %\n"
        "  1 of 1 series back\n"
        "  matmul size 5000, float32: 12.0 ms → 10.1 ms, −16 % (spread 0.8 %, 25 runs; then "
        "spread 1.1 %, 3 runs; p = 0.0004)\n"
        "  suite: blog\n"
        "  what differs since: nothing recorded changed\n"
        "  since suite blog, 2026-10-19 (run-20), acknowledged until now\n"
        f"  alert: {alert.id}\n"
    ) in message.text
    assert "IMPROVED" not in message.text
    assert "Acknowledge" not in message.text
    assert message.alert_ids == [alert.id]
    alerts = opened(moved(20, 0.010, 0.012, some_series(10)))
    message = build(moved(26, 0.012, 0.010, some_series(3)), alerts=alerts)
    assert "PARTLY RECOVERED\n* Slower on g5.xlarge: 10 rows together, +20 %\n" in message.text
    assert "\n  3 of 10 series back\n" in message.text
    assert "\n  since suite blog, 2026-10-19 (run-20), still open\n" in message.text
    assert message.attributes["state"] == ("partly recovered",)


def test_an_environment_is_one_entry_with_its_number_of_series():
    of = some_series(15)
    points = [
        point(25, 0.01, 0.01 * (1.06 + number / 100), of=one) for number, one in enumerate(of)
    ]
    message = build(change(*points[::-1], environment=True))
    assert (
        "* Slower on g5.xlarge: 15 rows together, +13 % (+6.0 % to +20 % by row)\n" in message.text
    )
    assert message.text.count("; then spread") == MOST_POINTS
    assert "\n  and 9 more, listed on the report page\n" in message.text


def test_a_gpu_target_that_ran_on_the_cpu_is_called_so_before_any_figure():
    on_cpu = series(actual_device="cpu", gpu_model=None)
    slower = change(point(of=on_cpu), fell_back=("g5.xlarge",))
    better = change(point(26, 0.012, 0.010, of=on_cpu), fell_back=("g5.xlarge",))
    for message in (build(slower), build(better), build(better, alerts=opened(slower))):
        assert message.text.count("on g5.xlarge (ran on the CPU): matmul") == 1
        assert "on g5.xlarge (ran on the CPU): matmul" in message.subject
        assert "g5.xlarge:" not in message.text.replace("log of g5.xlarge:", "")
    assert "ran on the CPU" not in build(change()).text


def test_what_is_not_known_says_why():
    unpriced = change(point(), usd_per_month=None, usd_reason="g5.xlarge has no price")
    message = build(unpriced)
    assert "cost: g5.xlarge has no price\n" in message.text
    assert "re-run: no job was re-run to check it\n" in message.text
    assert "what differs: nothing recorded changed\n" in message.text
    without = build(change(), context=MessageContext("lab", RUN, "https://report.example"))
    assert "log of" not in without.text
    assert "DAG change_alert: trigger it" in without.text


def test_messages_that_may_not_have_arrived_are_mentioned():
    runs = [f"run-{number}" for number in range(8)]
    context = MessageContext("lab", RUN, "https://report.example", unsure_runs=runs)
    message = build(change(), context=context)
    assert message.mentions == tuple(runs)
    assert "may not have arrived: run-0, run-1, run-2, run-3, run-4 and 3 more." in message.text


def test_what_does_not_fit_is_counted():
    message = build(*(change(point(of=one)) for one in some_series(1000)))
    assert 0.9 * TEXT_BYTES < size(message.text) <= TEXT_BYTES
    shown = message.text.count("\n* ")
    more = f"And {1000 - shown} more; see the report for all of them."
    assert f"\n\n{more}\n\nReport: https://" in message.text
    assert shown > 50
    assert message.subject == "Batchmark lab: 1000 slower"
    assert len(message.opened) == 1000
    # Text that JSON makes long fits, too.
    of = [series(workload="µ" * 100, dtype=f"{number}") for number in range(300)]
    message = build(*(change(point(of=one)) for one in of))
    assert size(message.text) <= TEXT_BYTES
    assert "more; see the report for all of them." in message.text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Batchmark lab: 1 slower", "Batchmark lab: 1 slower"),
        ("two\nlines\tand\x7f", "two?lines?and?"),
        ("12 µs → 13 µs, −2×", "12 us -> 13 us, -2x"),
        ("ßize", "?ize"),
        ("x" * 99, "x" * 99),
        ("x" * 75 + "y" * 25, "x" * 72 + "..." + "y" * 24),
    ],
)
def test_a_subject_is_ascii_on_one_line_and_short(text, line):
    assert subject_line(text) == line
    assert len(line) <= SUBJECT_CHARACTERS


def test_a_text_is_cut_to_what_json_makes_of_it():
    for text in ("x" * 70_000, "µ" * 70_000, '"' * 70_000):
        assert 0.99 * TEXT_BYTES < len(json.dumps(cut(text))) <= TEXT_BYTES
    assert cut("short µ") == "short µ"


def test_an_improvement_saves_money():
    message = build(change(point(26, 0.012, 0.009), usd_per_month=-3.1))
    assert "cost: a month: $3.10 less, if an instance did only this work" in message.text
    assert message.subject == (
        "Batchmark lab: Faster on g5.xlarge: matmul size 5000, float32, -25 %"
    )


SLOWER = opened()[0]
DEARER = opened(change(point(22, 1.0, 1.2, metric="price", of=series(workload=None))))[0]


def test_a_line_says_what_changed_where_and_since_when():
    seen = DEARER.become("acknowledged", at=NOW, by="ada", run_id="manual-0", note="new price list")
    board = alert_board([seen, SLOWER], None, "https://airflow.example/")
    slower, dearer = board.lines
    assert slower.model_dump() == {
        "alert_id": SLOWER.id,
        "kind": "slower",
        "title": "Slower on g5.xlarge: matmul size 5000, float32, +20 %",
        "suite": "blog",
        "state": "open",
        "since_run_id": run_id(20),
        "since": "suite blog, 2026-10-19",
        "change": SLOWER.change.points[0].change,
        "change_url": f"https://airflow.example/batchmark/alerts#{SLOWER.id}",
        "note": None,
    }
    assert (dearer.state, dearer.note) == ("acknowledged", "new price list")
    assert dearer.title == "Dearer: g5.xlarge, $1 an hour → $1.2 an hour, +20 %"
    assert f'"alert_id": "{SLOWER.id}"' in board.how_to_change
    # Without an address of Airflow there is no link, but the command.
    board = alert_board([SLOWER], None, None)
    assert board.lines[0].change_url is None
    assert "airflow dags trigger change_alert" in board.how_to_change.splitlines()[-1]


def test_what_is_closed_or_came_back_is_not_listed_but_counts_as_judged():
    alerts = [in_state(SLOWER, state) for state in ("invalid", "fixed", "recovered")]
    board = alert_board(alerts, precision(alerts), None)
    assert (board.lines, board.how_to_change) == ((), "")
    assert board.precision == Rate.of(2, 3)


def test_a_metric_is_worse_in_its_unit_below_a_heading_of_its_own():
    """Channels still filter by the kind that all changes of figures have."""
    rate = build_own_key(better="higher", metric="throughput", unit="images/s")
    message = build(change(point(of=rate, before=1 / 120, after=1 / 95)), change(point()))
    assert message.subject == "Batchmark lab: 1 slower, 1 worse"
    worse = "Worse on g5.xlarge: thumbnails throughput (images/s), −21 %"
    assert f"\nWORSE\n* {worse}\n" in message.text
    assert "120 images/s → 95.0 images/s, −21 %" in message.text
    assert message.attributes["kind"] == ("slower",)
