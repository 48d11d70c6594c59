"""The trend that `make try-job WATCH=5` leaves."""

import pyarrow as pa

from batchmark.changes.suspects import runs_missing
from batchmark.history.columns import SCHEMA
from laptop.own_jobs.watching import COLUMNS, trend_lines, write_trends
from laptop.stack import TRENDS_HTML
from tests.builders.history import CPU, measured
from tests.builders.reports import Page

RUNS = (2.0, 2.1, 1.9, 2.0, 2.4)  # seconds


def test_page_and_terminal_have_each_series_and_what_an_alert_still_needs(tmp_path):
    job = {"suite": "job-convert", "workload": "convert", "dtype": "none"}
    found = [
        measured(seconds, CPU, day=day, size=size, **job)
        for day, seconds in enumerate(RUNS)
        for size in (64, 256)
    ]
    schema = SCHEMA.append(pa.field("suite", pa.string()))
    rows = pa.Table.from_pylist(found, schema=schema).select([*COLUMNS, "suite"])
    write_trends("convert", rows, tmp_path)
    html = (tmp_path / TRENDS_HTML).read_text()
    page = Page(html)
    page.check()
    text = " ".join(" ".join(page.texts).split())
    for size in (64, 256):
        assert f"convert size {size}" in text
    assert html.count("<figure") == 2
    assert "2 series over up to 5 runs, none with an alert." in text
    assert runs_missing(5) in text
    assert "+20 % against the previous median, 2.00 s, not known yet" in text
    assert 'href="report.html"' in html
    lines = [" ".join(line.split()) for line in trend_lines("convert", rows)]
    assert lines[0] == "suite job-convert: 5 runs, newest first"
    assert lines[-1].endswith("5 2.40 s 2.00 s +20 %, not known yet")
