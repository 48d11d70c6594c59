"""The history made anew: of each run's raw documents, and of the imported files.

A run's folder says which documents count, what Batch told of their jobs, and what they cost.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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

    name: str
    files: dict[str, bytes] | None
    problems: tuple[str, ...] = ()


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
    steps: list[Callable[[], _Made]] = [
        *(partial(_of_run, RunStore(s3, bucket, name), region) for name in runs),
        *(partial(_of_import, store, key) for key in store.keys(imports.FOLDER)),
    ]
    result = Rebuilt(sources=len(steps))
    kept: set[str] = set()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for made in progress(pool.map(lambda step: step(), steps), len(steps)):
            result.problems += made.problems
            if made.files is None:
                kept |= {key for key in before if _name(key) == made.name}
                continue
            kept |= set(made.files)
            for key, body in made.files.items():
                if key in before and history.get(key) == body:
                    result.unchanged += 1
                    continue
                result.written.append(key)
                if not dry_run:
                    history.put(key, body)
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


def _of_run(store: RunStore, region: str) -> _Made:
    """Of the raw documents; of the copy in the run's folder where one can't be read any more."""
    key = store.prefix + COLLECTED
    try:
        run = CollectedRun.model_validate_json(store.read(key))
        prices = run_prices(store, region, run)
    except ValidationError as error:
        problem = f"{store.prefix} is not of this release ({first_problem(error)}): its rows stay"
        return _Made(store.name, None, (problem,))
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
    return _Made(store.name, files_of(rows, store.name), tuple(problems))


def _of_import(store: RunStore, key: str) -> _Made:
    name = key.removeprefix(imports.FOLDER).removesuffix(".json")
    try:
        file = imports.ImportedFile.model_validate_json(store.read(key))
        return _Made(name, file.files())
    except ValidationError as error:
        reason = first_problem(error)
    except HistoryError as error:
        reason = str(error)
    return _Made(name, None, (f"{key} can't be imported again ({reason}): its rows stay",))
