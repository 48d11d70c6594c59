"""Whatever a job tells as a metric is refused in one short line, or fits anywhere."""

import json

from hypothesis import strategies as st

from batchmark_job.result.metric import MetricLineError, json_schema, parse_metric_line
from tests.builders.hostile import changed, damaged, fuzz
from tests.builders.noise import quick_and_long

GOOD = {
    "metric": "throughput",
    "value": 12.5,
    "unit": "images/s",
    "higher_is_better": True,
    "version": 1,
}
NEAR = changed(GOOD, json_schema() | {"$defs": {}}).map(json.dumps)
DAMAGED = damaged(json.dumps(GOOD).encode()).map(lambda line: line.decode(errors="surrogateescape"))
ANYTHING = NEAR | DAMAGED | st.text()


def check(text):
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
    fuzz(examples, check, ANYTHING)
