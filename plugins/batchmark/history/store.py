"""Stores the history in the bucket, with one file per suite, month, and run or import."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import pyarrow as pa

from batchmark.aws.boto_clients import client
from batchmark.aws.price_list import stored_prices
from batchmark.aws.result_bucket import Bucket, RunStore
from batchmark.core.config import Config
from batchmark.core.errors import CollectError, error_summary
from batchmark.core.names import slug, url_safe
from batchmark.core.output import line
from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedRun, StoredRun
from batchmark.history.columns import IMPORTED
from batchmark.history.file_reader import FileReader
from batchmark.history.imports.file import ImportedFile
from batchmark.history.parquet import (
    FOLDER,
    MOST_BYTES,
    MOST_ROWS,
    FileLocation,
    concatenated,
    decode,
    encode_rows,
    schema_for,
)
from batchmark.history.rows import Row, history_rows

THREADS = 8  # below the ten connections that a boto3 client keeps
FILES_AT_A_TIME = 256  # judgment: bounds memory, which holds as many files' rows at a time
PARQUET = "application/vnd.apache.parquet"

log = logging.getLogger(__name__)


class Selection(TypedDict, total=False):
    """A choice of rows to read; by default, all rows are read."""

    suites: Collection[str] | None  # only these
    since: date | None  # only rows recorded on this day, in UTC, or later
    run_ids: Collection[str] | None  # only rows of these runs


def run_prices(store: RunStore, region: str, run: StoredRun) -> PriceTable:
    """Return the prices that a run is charged at; once stored, they never change."""
    ended = max((job.stopped_at for job in run.jobs), default=datetime.now(UTC))
    return stored_prices(store, region, ended)


class RunFiles(NamedTuple):
    files: dict[str, bytes]  # by key
    problems: tuple[str, ...]  # each names a job without rows


def run_files(
    run: CollectedRun, prices: PriceTable, name: str, before: Sequence[Row] = ()
) -> RunFiles:
    """Return a run's history files; `prices` come from `run_prices`.

    `before` contains rows from the run's other jobs that are already in the history.
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
            problems.append(f"{job.document_uri} has no usable rows: {error_summary(error)}")
            continue
        if len(rows) + len(of_job) > MOST_ROWS:
            problems.append(f"{job.document_uri}: its run has more than {MOST_ROWS} rows")
        else:
            rows += of_job
    return RunFiles(encode_rows(rows, name), tuple(problems))


class HistoryStore:
    """The data set under `history/`, written run by run and read by column and partition."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self.objects = Bucket(s3, bucket)
        self.unreadable: list[str] = []  # keys skipped: damaged, or no files of the history

    @classmethod
    def of(cls, config: Config) -> Self:
        return cls(client("s3", config.region), config.bucket)

    def append(
        self, run: CollectedRun, prices: PriceTable, name: str, before: Sequence[Row] = ()
    ) -> tuple[str, ...]:
        """Replace a run's rows and return the keys written; `prices` come from `run_prices`.

        `name` is the run folder's name, by which `rebuild` identifies the files; `before` contains
        earlier rows to keep.
        """
        files, problems = run_files(run, prices, name, before)
        for problem in problems:
            log.error("%s", line(f"Missing from the history: {problem}"))
        lost = (*run.lost, *run.superseded)
        suites = {job.planned.suite for job in run.jobs} | {job.planned.suite for job in lost}
        self.replace(name, suites, files)
        return tuple(files)

    def append_import(
        self, file: ImportedFile, files: Mapping[str, bytes] | None = None
    ) -> tuple[str, ...]:
        """Store another tool's file, replace its rows, and return the keys written.

        Pass `files` if `file.files()` has already been called.

        Raises:
            HistoryError: the file isn't in its declared format, or a value does not fit its column.
        """
        if files is None:
            files = file.files()
        self.objects.put(file.key, file.model_dump_json(indent=2).encode())
        self.replace(file.name, [IMPORTED], files)
        return tuple(files)

    def replace(self, name: str, suites: Iterable[str], files: Mapping[str, bytes]) -> None:
        """Write a run's or import's files, then remove its other files in these suites.

        For example, a run has others if it was cleared and then ended in a different month.
        """
        for key, body in files.items():
            self.objects.put(key, body, PARQUET)
        for suite in sorted(suites):
            for key in self.keys(suite):
                location = FileLocation.of(key)
                if location and location.name == name and key not in files:
                    self.objects.remove(key)

    def read(self, columns: Sequence[str], **selection: Unpack[Selection]) -> pa.Table:
        """Read `columns` of the selected rows, plus suite and month; text is dictionary-encoded."""
        return concatenated(list(self.tables(columns, **selection)), schema_for(columns))

    def tables(self, columns: Sequence[str], **selection: Unpack[Selection]) -> Iterator[pa.Table]:
        """Yield the same rows as `read`, in batches of files, by suite and month."""
        schema = schema_for(columns)
        locations = list(self._locations(selection))
        for some in self.files(columns, locations, **selection):
            yield concatenated(list(some.values()), schema).combine_chunks()

    def files(
        self,
        columns: Sequence[str],
        locations: Sequence[FileLocation],
        **selection: Unpack[Selection],
    ) -> Iterator[dict[FileLocation, pa.Table]]:
        """Yield rows by file, one batch of files at a time; unreadable files are skipped."""
        schema = schema_for(columns)
        since, run_ids = selection.get("since"), selection.get("run_ids")

        def decoded(body: bytes, location: FileLocation) -> pa.Table:
            return decode(body, location, schema, since=since, run_ids=run_ids)

        def rows(location: FileLocation) -> pa.Table | Exception:
            try:
                body = self.objects.read_if_there(location.key, most_bytes=MOST_BYTES)
                if body is None:  # its run was cleared and has replaced it
                    return schema.empty_table()
                return reader.read(body, location)
            except (CollectError, pa.ArrowInvalid) as error:
                return error

        with FileReader(decoded) as reader, ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(locations), FILES_AT_A_TIME):
                some = locations[start : start + FILES_AT_A_TIME]
                tables = {}
                for location, table in zip(some, pool.map(rows, some), strict=True):
                    if isinstance(table, Exception):
                        self._skip(location.key, str(table))
                    else:
                        tables[location] = table
                yield tables

    def _locations(self, selection: Selection) -> Iterator[FileLocation]:
        """Yield the files that may contain selected rows, by suite and month."""
        suites, run_ids = selection.get("suites"), selection.get("run_ids")
        names = {name(run_id) for run_id in run_ids or () for name in (slug, url_safe)}
        for suite in sorted(self.suites() if suites is None else suites):
            for key in self.keys(suite, selection.get("since")):
                location = FileLocation.of(key)
                if location is None:
                    self._skip(key, "it is not named like a history file")
                # An imported file is named by its digest and holds many runs.
                elif run_ids is None or suite == IMPORTED or location.name in names:
                    yield location

    def suites(self) -> list[str]:
        """List the suites, with imports last."""
        return sorted(self.objects.folders(f"{FOLDER}suite="), key=lambda suite: suite == IMPORTED)

    def months(self, suite: str) -> list[str]:
        """List the months for which a suite has rows, earliest first."""
        return self.objects.folders(f"{FOLDER}suite={suite}/month=")

    def keys(self, suite: str | None = None, since: date | None = None) -> list[str]:
        """List the keys of all files, or of one suite's files from the month of `since` onwards."""
        folder = FOLDER if suite is None else f"{FOLDER}suite={suite}/"
        return self.objects.keys(folder, f"{folder}month={since:%Y-%m}" if since else "")

    def versions(self, suite: str, month: str) -> dict[str, str]:
        """Return the ETags of a month's files, by key."""
        return self.objects.versions(f"{FOLDER}suite={suite}/month={month}/")

    def _skip(self, key: str, reason: str) -> None:
        log.warning("%s", line(f"s3://{self.objects.bucket}/{key} is skipped: {reason}"))
        self.unreadable.append(key)
