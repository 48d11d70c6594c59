"""Copies a run's report out of the local cloud, which by default keeps nothing when it stops."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from batchmark.aws.result_bucket import REPORT_HTML, REPORT_JSON, RunStore
from batchmark.report.model import Report, render_json
from batchmark.report.page import page_html
from batchmark.report.pages.run_page import run_page


def copy_run(store: RunStore, folder: Path, jobs_file: Path | None = None) -> Report:
    """Copy a run's report and everything it links to in the bucket to `folder`; return the report.

    `jobs_file` is where its jobs are defined, if they are the user's own.
    Each linked object is copied to the path given by its key, and links become relative paths.
    """

    def copy(link: re.Match[str]) -> str:
        key = unquote(link[1])
        copied = folder / key
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(store.read(key))
        return key

    published = store.read(store.prefix + REPORT_JSON).decode()
    link_into_bucket = re.escape(store.bucket_url) + r'([^"?]+)[^"]*'
    report = Report.model_validate_json(re.sub(link_into_bucket, copy, published))
    if jobs_file:
        report = report.model_copy(update={"jobs_file": str(jobs_file)})
    (folder / REPORT_JSON).write_text(render_json(report))
    (folder / REPORT_HTML).write_text(page_html(run_page(report)))
    return report
