"""The history in the result bucket: a file for each run or imported file, suite and month."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from batchmark.history.columns import IMPORTED
from batchmark.history.parquet import (
    FOLDER,
    UNREADABLE,
    Place,
    decode,
    files_of,
    schema_of,
    together,
)
from batchmark.history.rows import rows_of
from batchmark.job_identity import slug
from batchmark.price_fetching import stored_prices
from batchmark.store import CONDITION_NOT_MET

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    import pyarrow as pa

    from batchmark.config import Config
    from batchmark.history.imports.file import ImportedFile
    from batchmark.prices import PriceTable
    from batchmark.run import CollectedRun
    from batchmark.store import RunStore

THREADS = 8  # below the ten connections that a boto3 client keeps
FILES_AT_A_TIME = 256
PARQUET = "application/vnd.apache.parquet"

log = logging.getLogger(__name__)


def run_prices(store: RunStore, region: str, run: CollectedRun) -> PriceTable:
    """The prices that a run is charged at, the same whenever one asks."""
    ended = max((job.stopped_at for job in run.jobs), default=datetime.now(UTC))
    return stored_prices(store, region, ended)


class HistoryStore:
    """The data set below `history/`, written run by run and read by column and partition.

    Attributes:
        unreadable: keys that reads left aside, for they are cut off or no file of the history.
    """

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket
        self.unreadable: list[str] = []

    @classmethod
    def of(cls, config: Config) -> Self:
        import boto3

        return cls(boto3.client("s3", region_name=config.region), config.bucket)

    def append(self, run: CollectedRun, prices: PriceTable) -> tuple[str, ...]:
        """Write a run's rows in the place of those that it wrote before; return their keys.

        Args:
            prices: see run_prices.
        """
        name = slug(run.run_id)
        files = files_of(rows_of(run, prices), name)
        lost = (*run.lost, *run.superseded)
        suites = {job.planned.suite for job in run.jobs} | {job.planned.suite for job in lost}
        self.replace(name, suites, files)
        return tuple(files)

    def append_import(
        self, file: ImportedFile, files: Mapping[str, bytes] | None = None
    ) -> tuple[str, ...]:
        """Keep a file of another tool and write its rows, in the place of what it wrote before.

        Args:
            files: what `file.files()` gave, where that is already known.

        Raises:
            HistoryError: it is not of its format, or a value fits in no column.
        """
        if files is None:
            files = file.files()
        self.put(file.key, file.model_dump_json(indent=2).encode(), "application/json")
        self.replace(file.name, [IMPORTED], files)
        return tuple(files)

    def replace(self, name: str, suites: Iterable[str], files: Mapping[str, bytes]) -> None:
        """Write a run's files, and only then remove what else lies under its name in `suites`.

        A run that was cleared may have ended in another month before.
        """
        for key, body in files.items():
            self.put(key, body)
        for suite in sorted(suites):
            for key in self.keys(suite):
                place = Place.of(key)
                if place and place.name == name and key not in files:
                    self.remove(key)

    def read(
        self,
        columns: Sequence[str],
        *,
        suites: Collection[str] | None = None,
        since: date | None = None,
        run_ids: Collection[str] | None = None,
    ) -> pa.Table:
        """The rows of the history: the columns asked for, suite and month; texts as dictionaries.

        Args:
            columns: names in columns.SCHEMA.
            suites: only these.
            since: only what was recorded on this day, by UTC, or later.
            run_ids: only the rows of these runs.
        """
        tables = self.tables(columns, suites=suites, since=since, run_ids=run_ids)
        return together(list(tables), schema_of(columns))

    def tables(
        self,
        columns: Sequence[str],
        *,
        suites: Collection[str] | None = None,
        since: date | None = None,
        run_ids: Collection[str] | None = None,
    ) -> Iterator[pa.Table]:
        """As `read`, some files at a time, by suite and month."""
        schema = schema_of(columns)
        names = None if run_ids is None else {slug(run_id) for run_id in run_ids}
        places = []
        for suite in sorted(self.suites() if suites is None else suites):
            for key in self.keys(suite, since):
                place = Place.of(key)
                if place is None:
                    self._leave_aside(key, "its name is none of a file of the history")
                elif names is None or suite == IMPORTED or place.name in names:
                    places.append(place)

        def rows(place: Place) -> pa.Table | Exception:
            try:
                body = self.get(place.key)
            except self._s3.exceptions.NoSuchKey:  # a cleared run's, replaced meanwhile
                return schema.empty_table()
            try:
                return decode(body, place, schema, since=since, run_ids=run_ids)
            except UNREADABLE as error:
                return error

        with ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(places), FILES_AT_A_TIME):
                some = places[start : start + FILES_AT_A_TIME]
                tables = []
                for place, found in zip(some, pool.map(rows, some), strict=True):
                    if isinstance(found, Exception):
                        self._leave_aside(place.key, str(found))
                    else:
                        tables.append(found)
                yield together(tables, schema).combine_chunks()

    def suites(self) -> list[str]:
        """Of which there are rows."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{FOLDER}suite=", Delimiter="/"
        )
        folders = [found["Prefix"] for page in pages for found in page.get("CommonPrefixes", ())]
        return [folder.removeprefix(f"{FOLDER}suite=").rstrip("/") for folder in folders]

    def keys(self, suite: str | None = None, since: date | None = None) -> list[str]:
        """Of all objects, of those of a suite, or of these from the month of a day on."""
        folder = FOLDER if suite is None else f"{FOLDER}suite={suite}/"
        start = {"StartAfter": f"{folder}month={since:%Y-%m}"} if since else {}
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=folder, **start
        )
        found = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return [key for key in found if not key.endswith("/")]  # consoles make such for folders

    def get(self, key: str) -> bytes:
        body: bytes = self._s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def get_version(self, key: str) -> tuple[bytes, str] | None:
        """A file, and what names this version of it; None where there is none."""
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key)
        except self._s3.exceptions.NoSuchKey:
            return None
        return answer["Body"].read(), answer["ETag"]

    def swap(self, key: str, body: bytes, version: str | None) -> bool:
        """Write a file in place of that version, None for where no file is.

        False, and nothing done, where it is another by now.
        """
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            self._s3.put_object(
                Bucket=self.bucket, Key=key, Body=body, ContentType=PARQUET, **condition
            )
        except self._s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in (*CONDITION_NOT_MET, "NoSuchKey"):
                raise
            return False
        return True

    def put(self, key: str, body: bytes, content_type: str = PARQUET) -> None:
        self._s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)

    def remove(self, key: str) -> None:
        self._s3.delete_object(Bucket=self.bucket, Key=key)

    def _leave_aside(self, key: str, reason: str) -> None:
        log.warning("s3://%s/%s is left aside: %s", self.bucket, key, reason)
        self.unreadable.append(key)
