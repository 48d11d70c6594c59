"""A run's files of the history, and the jobs whose rows these lack."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from batchmark.core.errors import unexpected
from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedRun
from batchmark.history.parquet import MOST_ROWS, encode_rows
from batchmark.history.rows import Row, history_rows


class RunFiles(NamedTuple):
    files: dict[str, bytes]  # by key
    problems: tuple[str, ...]  # each names a job without rows


def run_files(
    run: CollectedRun, prices: PriceTable, name: str, before: Sequence[Row] = ()
) -> RunFiles:
    """Return a run's files; the prices are those that it was planned with.

    `before` are rows of the run's other jobs, as the history has them.
    """
    with suppress(Exception):  # some job's: then each by itself
        rows = [*before, *history_rows(run, prices)]
        if len(rows) <= MOST_ROWS:
            return RunFiles(encode_rows(rows, name), ())
    return _by_job(run, prices, name, before)


def _by_job(run: CollectedRun, prices: PriceTable, name: str, before: Sequence[Row]) -> RunFiles:
    rows, problems = [*before], []
    for job in run.jobs:
        try:
            of_job = history_rows(run.model_copy(update={"jobs": (job,)}), prices)
            encode_rows(of_job, name)
        except Exception as error:
            problems.append(f"{job.document_uri} gives no rows: {unexpected(error)}")
            continue
        if len(rows) + len(of_job) > MOST_ROWS:
            problems.append(f"{job.document_uri}: its run has more than {MOST_ROWS} rows")
        else:
            rows += of_job
    return RunFiles(encode_rows(rows, name), tuple(problems))
