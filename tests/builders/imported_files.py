"""Other tools' results: the example files of tests/data/imports, as they are and changed."""

import json
from datetime import UTC, datetime

from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.imports.file import ImportedFile, detect
from batchmark_job.result.document import Device
from tests.paths import DATA

FOLDER = DATA / "imports"
ASV = FOLDER / "asv/results/ci/33333333-virtualenv-py3.11-numpy.json"
BENCHMARKS = (FOLDER / "asv/results/benchmarks.json").read_text()
GITHUB = FOLDER / "github-action-benchmark.js"
PYTEST, GITHUB_JSON, PYPERF, GOOGLE, HYPERFINE, HYPERFINE_2, NVBENCH = (
    FOLDER / f"{name}.json"
    for name in (
        *("pytest-benchmark", "github-action-benchmark", "pyperf", "google-benchmark"),
        *("hyperfine", "hyperfine-2", "nvbench"),
    )
)
CSV = FOLDER / "plain.csv"
# The format of each.
EXAMPLES = {
    PYTEST: "pytest-benchmark",
    GITHUB: "github-action-benchmark",
    GITHUB_JSON: "github-action-benchmark",
    ASV: "asv",
    PYPERF: "pyperf",
    GOOGLE: "google-benchmark",
    HYPERFINE: "hyperfine",
    HYPERFINE_2: "hyperfine",
    NVBENCH: "nvbench",
    CSV: "csv",
}
# Neither hyperfine 1 nor NVBench says when it measured.
GIVEN = {"recorded_at": datetime(2026, 10, 31, 10, tzinfo=UTC), "commit": "6" * 40}


def imported(path, text=None, **fields):
    """Return an imported file, if need be with another text; asv's has its benchmarks.json."""
    text = path.read_text() if text is None else text
    values = {
        "format": detect(text, path.name),
        "target": "ci",
        "device": Device.CPU,
        "file_name": path.name,
        "text": text,
        "benchmarks_text": BENCHMARKS if path == ASV else None,
    }
    return ImportedFile(**values | fields)


def edited(path, edit):
    document = json.loads(path.read_text())
    edit(document)
    return imported(path, json.dumps(document))


def by_point(file):
    rows = file.rows()
    assert {name for row in rows for name in row} <= set(ALL_COLUMNS)
    found = {(row["workload"], row["parameters"], row["run_id"]): row for row in rows}
    assert len(found) == len(rows)
    return found
