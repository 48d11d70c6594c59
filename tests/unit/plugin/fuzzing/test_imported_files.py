"""What comes in as a tool's file, a metric or a configuration is refused in one line, or fits."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st

from batchmark.analysis.published import TABLE
from batchmark.core.config import Config, parse_config
from batchmark.core.errors import ConfigError, HistoryError, PlanError
from batchmark.history.imports.file import FORMATS, ImportedFile, detect, is_beside_results
from batchmark.runs.budget import refusals, worst_case
from batchmark.runs.plans.planning import operator_kwargs, plan_jobs
from batchmark_job.result.metric import MetricLineError, json_schema, parse_metric_line
from tests.builders.hostile import ANY_JSON, DEEP, changed, damaged, fuzz, texts
from tests.builders.imported_files import EXAMPLES
from tests.builders.installations import own_types, published
from tests.builders.noise import quick_and_long
from tests.builders.runs import PRICES

NEAR = [
    damaged(path.read_bytes()).map(lambda body: body.decode(errors="replace"))
    for path in (*EXAMPLES, TABLE)
]
# Keys by which formats are recognised, with anything below them.
KEYS = (
    *("benchmarks", "version", "results", "entries"),
    *("commit_hash", "context", "devices", "machine"),
)
RECOGNISED = st.dictionaries(st.sampled_from(KEYS), ANY_JSON).map(json.dumps)
FILES = st.one_of(*NEAR, RECOGNISED, ANY_JSON.map(json.dumps), DEEP, st.text())


def check(text, chosen):
    """Read a file as what it seems to be, and as another format."""
    for name in (None, chosen):
        try:
            if is_beside_results(text, "f"):
                continue
            values = {"format": name or detect(text, "f"), "target": "t", "device": "cpu"}
            file = ImportedFile(file_name="f", text=text, benchmarks_text=text, **values)
            parsed = file.parse()
            said = parsed.losses
            file.files(parsed)
        except HistoryError as error:
            said = [str(error)]
        assert all(len(line.splitlines()) == 1 for line in said)


@quick_and_long("examples", [20], [5_000], pytest.mark.timeout(1800))
def test_no_imported_file_is_an_unknown_error(examples):
    fuzz(examples, check, FILES, st.sampled_from(FORMATS))


GOOD = {
    "metric": "throughput",
    "value": 12.5,
    "unit": "images/s",
    "higher_is_better": True,
    "version": 1,
}
NEAR_GOOD = changed(GOOD, json_schema() | {"$defs": {}}).map(json.dumps)
DAMAGED = damaged(json.dumps(GOOD).encode()).map(lambda line: line.decode(errors="surrogateescape"))
ANYTHING = NEAR_GOOD | DAMAGED | st.text()


def check_line(text):
    try:
        line = parse_metric_line(text)
    except MetricLineError as error:
        said = str(error)
        assert len(said) < 400
        return
    assert 1e-9 <= line.value <= 1e9
    assert len(line.unit.splitlines()) == 1
    assert parse_metric_line(line.model_dump_json()) == line


@quick_and_long("examples", [30], [5_000])
def test_no_line_is_an_unknown_error(examples):
    fuzz(examples, check_line, ANYTHING)


PUBLISHED = published(targets=own_types(**{"g5.xlarge": {}, "c5.2xlarge": {}}), monthly_cap_usd=50)
VARIABLES = texts(PUBLISHED, Config.model_json_schema())


def check_configuration(text):
    try:
        config = parse_config(text)
        jobs = plan_jobs(config, run_name="manual__2026-11-20", suite="smoke")
    except (ConfigError, PlanError) as error:
        said = str(error)
        assert len(said) < 1000
        return
    for job in jobs:
        json.dumps(operator_kwargs(config, "manual__2026-11-20", job))
    worst = worst_case(config, jobs, PRICES, datetime(2026, 11, 20, tzinfo=UTC))
    refusals(worst, max_cost_usd=5.0)
    worst.model_dump_json()


@quick_and_long("examples", [40], [3_000])
def test_no_published_configuration_is_an_unknown_error(examples):
    fuzz(examples, check_configuration, VARIABLES.map(lambda text: text.decode(errors="replace")))
