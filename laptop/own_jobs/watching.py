"""Shows the trend of a user's own job across its runs on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from batchmark.aws.result_bucket import REPORT_HTML
from batchmark.changes import conditions
from batchmark.changes.metric import Metric
from batchmark.changes.standing import standings
from batchmark.core.suites import OWN_JOB
from batchmark.history import series
from batchmark.history.overview import overview
from batchmark.history.store import HistoryStore
from batchmark.report.page import page_html
from batchmark.report.pages.watched_page import watched_page
from batchmark.report.site.trends import trends
from laptop.aws import AwsClients
from laptop.stack import TRENDS_HTML, Stack

COLUMNS = tuple(dict.fromkeys((*series.COLUMNS, *series.VERSION, *conditions.COLUMNS)))


def history_of(stack: Stack, name: str) -> pa.Table:
    """Read the history of one of the user's own jobs from the stack."""
    with closing(AwsClients(stack.aws)) as aws:
        history = HistoryStore(aws.client("s3"), aws.config().bucket)
        return history.read(COLUMNS, suites=[OWN_JOB + name])


def write_trends(name: str, rows: pa.Table, folder: Path) -> None:
    """Write a page with the trends of all the job's series, next to the report in `folder`."""
    found = series.series_histories(rows, Metric.TIME)
    under = conditions.run_conditions(rows.select(list(conditions.COLUMNS)).to_pylist())
    drawn = trends(found, [], under, standings=standings(found))
    page = watched_page(name, OWN_JOB + name, drawn, REPORT_HTML)
    (folder / TRENDS_HTML).write_text(page_html(page))


def trend_lines(name: str, rows: pa.Table) -> Iterator[str]:
    """Yield lines for the terminal that list the runs and compare each row with earlier runs."""
    return overview(OWN_JOB + name, rows)
