"""The history made anew: of each run's raw documents, and of the imported files.

A run's folder says which documents count, what Batch told of their jobs, and what they cost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import ValidationError

from batchmark.documents import ExpectedDocument
from batchmark.exceptions import CollectError, HistoryError
from batchmark.history.imports import file as imports
from batchmark.history.parquet import Place, files_of
from batchmark.history.rows import rows_of
from batchmark.history.store import HistoryStore, run_prices
from batchmark.record import first_problem
from batchmark.run import CollectedRun
from batchmark.store import COLLECTED, RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RUNS, RAW = "runs/", "raw/"
COLLECTED_KEY = rf"{RUNS}[^/]+/{re.escape(COLLECTED)}"
AT_A_TIME = 4  # each holds the documents of a run
LOOKS = 3  # at a run that is written meanwhile


@dataclass
class Rebuilt:
    """What a rebuild did, or would have done.

    Attributes:
        sources: runs and imported files that the history is made of.
        written: keys of files that were not there, or not like this.
        unchanged: how many files were as they should be.
        removed: keys of objects that no run and no import accounts for.
        uncounted: keys of raw documents that no collected run accounts for.
        problems: what could not be read, and what stands instead.
    """

    sources: int = 0
    written: list[str] = field(default_factory=list)
    unchanged: int = 0
    removed: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class _Made(NamedTuple):
    """The files of a run or an imported file; None where what it wrote before has to stay."""

    files: dict[str, bytes] | None
    problems: tuple[str, ...] = ()


class _Look(NamedTuple):
    """What was made of a source, and what the history had of it before the source was read.

    So a file that a run writes in between is not taken for the one that was compared.
    """

    make: Callable[[], _Made]
    found: dict[str, tuple[bytes, str] | None]
    made: _Made

    @classmethod
    def at(cls, history: HistoryStore, make: Callable[[], _Made], keys: Iterable[str]) -> Self:
        found = {key: history.get_version(key) for key in keys}
        return cls(make, found, make())

    def wrong(self) -> dict[str, bytes]:
        """Files that are missing or different."""
        had = {key: there and there[0] for key, there in self.found.items()}
        files = self.made.files or {}
        return {key: body for key, body in files.items() if had.get(key) != body}

    def version(self, key: str) -> str | None:
        there = self.found.get(key)
        return there and there[1]


def rebuild(
    s3: Any,
    bucket: str,
    region: str,
    *,
    dry_run: bool = False,
    progress: Callable[[Iterable[Any], int], Iterable[Any]] = lambda steps, _: steps,
) -> Rebuilt:
    """Write every file of the history that is missing or different, then remove what is too much.

    What is written meanwhile stays. Nothing outside `history/` is ever changed.

    Args:
        region: of the installation; its committed prices hold for runs without their own.
        dry_run: change nothing at all.
        progress: given the steps and how many there are, it passes them on.
    """
    history = HistoryStore(s3, bucket)
    store = RunStore(s3, bucket, "")
    before = set(history.keys())  # first of all
    runs = [key.split("/")[1] for key in store.keys(RUNS) if re.fullmatch(COLLECTED_KEY, key)]
    sources: list[tuple[str, Callable[[], _Made]]] = [
        *((name, partial(_of_run, RunStore(s3, bucket, name), region)) for name in runs),
        *(
            (
                key.removeprefix(imports.FOLDER).removesuffix(".json"),
                partial(_of_import, store, key),
            )
            for key in store.keys(imports.FOLDER)
        ),
    ]
    own = defaultdict(list)
    for key in before:
        own[_name(key)].append(key)
    result = Rebuilt(sources=len(sources))
    kept: set[str] = set()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        looks = pool.map(lambda source: _Look.at(history, source[1], own[source[0]]), sources)
        for look in progress(looks, len(sources)):
            made, written = (look.made, set(look.wrong())) if dry_run else _write(history, look)
            result.problems += made.problems
            if made.files is None:
                kept |= set(look.found)
                continue
            kept |= set(made.files)
            before |= written  # also what a later look took back
            result.written += [key for key in made.files if key in written]
            result.unchanged += len(made.files.keys() - written)
    result.removed = sorted(before - kept)
    if not dry_run:
        for key in result.removed:
            history.remove(key)
    collected = set(runs)
    result.uncounted = [key for key in store.keys(RAW) if key.split("/")[1] not in collected]
    return result


def _name(key: str) -> str | None:
    place = Place.of(key)
    return place and place.name


def _write(history: HistoryStore, look: _Look) -> tuple[_Made, set[str]]:
    """Write what is wrong; look again where something else was written meanwhile.

    Returns:
        What was made at last, and the keys of all files written.
    """
    written: set[str] = set()
    for _ in range(LOOKS):
        for key, body in look.wrong().items():
            if not history.swap(key, body, look.version(key)):
                break
            written.add(key)
        else:
            return look.made, written
        look = _Look.at(history, look.make, {*look.found, *(look.made.files or ())})
    problem = f"{key} was written by others again and again: it stays as it is; rebuild later"
    return _Made(None, (*look.made.problems, problem)), written


def _of_run(store: RunStore, region: str) -> _Made:
    """Of the raw documents; of the copy in the run's folder where one can't be read any more."""
    key = store.prefix + COLLECTED
    try:
        run = CollectedRun.model_validate_json(store.read(key))
        prices = run_prices(store, region, run)
    except ValidationError as error:
        problem = f"{store.prefix} is not of this release ({first_problem(error)}): its rows stay"
        return _Made(None, (problem,))
    jobs, problems = [], []
    for job in run.jobs:
        expected = ExpectedDocument.of(run.run_id, job.planned)
        try:
            document = expected.read(store, job.job_id, job.job_attempt)
        except CollectError as error:
            problems.append(f"{error}; its copy in {key} counts instead")
            document = job.document
        jobs.append(job.model_copy(update={"document": document}))
    rows = rows_of(run.model_copy(update={"jobs": tuple(jobs)}), prices)
    return _Made(files_of(rows, store.name), tuple(problems))


def _of_import(store: RunStore, key: str) -> _Made:
    try:
        file = imports.ImportedFile.model_validate_json(store.read(key))
        return _Made(file.files())
    except ValidationError as error:
        reason = first_problem(error)
    except HistoryError as error:
        reason = str(error)
    return _Made(None, (f"{key} can't be imported again ({reason}): its rows stay",))
