"""Rebuilds the history from the runs' raw documents and the imported files.

A run's folder records which documents count, what Batch reported about their jobs, and prices.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from batchmark.aws.batch_jobs import is_passing
from batchmark.aws.result_bucket import COLLECTED, Bucket, RunStore
from batchmark.core.errors import CollectError, HistoryError, error_summary
from batchmark.core.formatting import count, shortened_list
from batchmark.core.record import first_problem
from batchmark.core.run import StoredRun
from batchmark.history.imports.file import FOLDER as IMPORTS
from batchmark.history.imports.file import ImportedFile
from batchmark.history.parquet import MOST_BYTES, FileLocation
from batchmark.history.store import PARQUET, HistoryStore, run_files, run_prices
from batchmark.runs.collected_runs import read_raw_document

RUNS, RAW = "runs/", "raw/"
COLLECTED_KEY = rf"{RUNS}[^/]+/{re.escape(COLLECTED)}"
AT_A_TIME = 4  # each holds all documents of a run
TRIES = 3  # at a source whose files a running DAG is writing, too


class _Contents(NamedTuple):
    """The history files that a source should have, by key.

    If they are incomplete, the source's existing files are kept and only missing ones are written.
    """

    files: dict[str, bytes]
    problems: tuple[str, ...] = ()
    complete: bool = True
    unchecked: int = 0


class _Source(NamedTuple):
    """A source of history files: a run or an imported file."""

    name: str
    read: Callable[[], _Contents]

    def contents(self) -> _Contents:
        try:
            return self.read()
        except Exception as error:
            if is_passing(error):
                raise
            problem = f"{self.name} can't be rebuilt ({error_summary(error)}), so its rows are kept"
            return _Contents({}, (problem,), complete=False)


@dataclass
class RebuildResult:
    sources: int = 0  # number of runs and imported files that the history consists of
    written: list[str] = field(default_factory=list)  # keys of files that were missing or different
    unchanged: int = 0  # number of files that were right
    removed: list[str] = field(default_factory=list)  # keys that belong to no run or import
    uncounted: list[str] = field(default_factory=list)  # raw documents of no collected run
    unchecked: int = 0  # number of raw documents that older releases collected without a SHA-256
    problems: list[str] = field(default_factory=list)  # unread, and what is used instead

    def add(self, contents: _Contents, written: set[str]) -> None:
        self.problems += contents.problems
        self.unchecked += contents.unchecked
        self.written += [key for key in contents.files if key in written]
        self.unchanged += len(contents.files.keys() - written)


class _Snapshot(NamedTuple):
    """A source's current history files, and the files that it should have.

    They are read in this order, so that files written after the source was read are noticed.
    """

    source: _Source
    existing: dict[str, tuple[bytes, str] | None]  # by key: body and ETag
    contents: _Contents

    @classmethod
    def take(cls, history: HistoryStore, source: _Source, keys: Iterable[str]) -> Self:
        existing = {key: history.objects.read_version(key, most_bytes=MOST_BYTES) for key in keys}
        return cls(source, existing, source.contents())

    def differing(self) -> dict[str, bytes]:
        existing = {key: version[0] for key, version in self.existing.items() if version}
        return {
            key: body
            for key, body in self.contents.files.items()
            if key not in existing or (self.contents.complete and existing[key] != body)
        }

    def etag(self, key: str) -> str | None:
        version = self.existing.get(key)
        return version and version[1]


def rebuild(
    s3: Any,
    bucket: str,
    region: str,
    *,
    dry_run: bool = False,
    progress: Callable[[Iterable[Any], int], Iterable[Any]] = lambda steps, _: steps,
) -> RebuildResult:
    """Write all missing or outdated history files, then remove those that belong to no source.

    Files written in the meantime are kept. Nothing outside `history/` is changed. Runs without
    stored prices use the price table committed for the region. `progress` wraps the iterable of
    steps and is also passed their number.
    """
    history = HistoryStore(s3, bucket)
    store = history.objects
    present = set(history.keys())  # listed first: what is written from now on is not removed
    runs = [key.split("/")[1] for key in store.keys(RUNS) if re.fullmatch(COLLECTED_KEY, key)]
    sources = _sources(store, runs, region)
    take = partial(_Snapshot.take, history)
    result = RebuildResult(sources=len(sources))
    kept: set[str] = set()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        snapshots = pool.map(take, sources, _keys_of(sources, present))
        for snapshot in progress(snapshots, len(sources)):
            contents, written = (
                (snapshot.contents, set(snapshot.differing()))
                if dry_run
                else _write(history, snapshot)
            )
            result.add(contents, written)
            kept |= set(contents.files)
            if contents.complete:
                present |= written  # a later try may have dropped some of them
            else:
                kept |= set(snapshot.existing)
    result.removed = sorted(present - kept)
    if not dry_run:
        for key in result.removed:
            store.remove(key)
    collected = set(runs)
    result.uncounted = [key for key in store.keys(RAW) if key.split("/")[1] not in collected]
    return result


def _sources(store: Bucket, runs: Iterable[str], region: str) -> list[_Source]:
    of_runs = [_Source(name, partial(_read_run, store.of_run(name), region)) for name in runs]
    of_imports = [
        _Source(key.removeprefix(IMPORTS).removesuffix(".json"), partial(_read_import, store, key))
        for key in store.keys(IMPORTS)
    ]
    return of_runs + of_imports


def _keys_of(sources: Sequence[_Source], keys: Iterable[str]) -> list[list[str]]:
    """Return the keys of each source's history files, in the same order as the sources."""
    by_name = defaultdict(list)
    for key in keys:
        if location := FileLocation.of(key):
            by_name[location.name].append(key)
    return [by_name[source.name] for source in sources]


def _write(history: HistoryStore, snapshot: _Snapshot) -> tuple[_Contents, set[str]]:
    """Write the files that differ; start over if another program wrote one in the meantime.

    Returns the source's contents and the keys of all files written. After too many tries, the
    contents are empty and marked as incomplete.
    """
    written: set[str] = set()
    for _ in range(TRIES):
        for key, body in snapshot.differing().items():
            if not history.objects.swap(key, body, snapshot.etag(key), PARQUET):
                break
            written.add(key)
        else:
            return snapshot.contents, written
        keys = {*snapshot.existing, *snapshot.contents.files}
        snapshot = _Snapshot.take(history, snapshot.source, keys)
    problem = (
        f"{key} keeps being changed by another program, so it was left unchanged; run the rebuild "
        "again later"
    )
    return _Contents({}, (*snapshot.contents.problems, problem), complete=False), written


def _read_run(store: RunStore, region: str) -> _Contents:
    """Return a run's history files, built from its raw documents.

    For a document that is gone or was replaced, use any copy that an older release stored.
    """
    key = store.prefix + COLLECTED
    try:
        run = StoredRun.model_validate_json(store.read(key))
        prices = run_prices(store, region, run)
    except ValidationError as error:
        problem = (
            f"{store.prefix} is from another release ({first_problem(error)}), so its rows are kept"
        )
        return _Contents({}, (problem,), complete=False)
    jobs, problems = [], []
    for job in run.jobs:
        try:
            document = read_raw_document(store, run.run_id, job)
        except CollectError as error:
            if job.document is None:
                problems.append(f"{error}; run {run.run_id} keeps its existing rows")
                continue
            problems.append(f"{error}; its copy in {key} is used instead")
            document = job.document
        jobs.append(job.with_document(document))
    files, without_rows = run_files(run.with_jobs(jobs), prices, store.name)
    complete = len(jobs) == len(run.jobs) and not without_rows
    unchecked = sum(job.document_sha256 is None for job in run.jobs)
    return _Contents(files, (*problems, *without_rows), complete, unchecked)


def _read_import(store: Bucket, key: str) -> _Contents:
    try:
        file = ImportedFile.model_validate_json(store.read(key))
        parsed = file.parse()
        lost = parsed.left_out.losses
        entries = count(len(lost), "entry", "entries")
        problem = f"{key} ({file.file_name}): {entries} left out: {shortened_list(lost)}"
        return _Contents(file.files(parsed), (problem,) if lost else ())
    except ValidationError as error:
        reason = first_problem(error)
    except HistoryError as error:
        reason = str(error)
    problem = f"{key} can't be imported again ({reason}), so its rows are kept"
    return _Contents({}, (problem,), complete=False)
