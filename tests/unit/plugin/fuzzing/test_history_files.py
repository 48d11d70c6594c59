"""Whatever lies below history/ costs its file at most, whoever reads the history."""

import json
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from batchmark.changes.conditions import run_conditions
from batchmark.changes.detection import detect_changes
from batchmark.changes.metric import Metric
from batchmark.changes.suspects import weigh
from batchmark.history.columns import ALL_COLUMNS, SCHEMA
from batchmark.history.exports import asv, bencher, csv, pyperf
from batchmark.history.parquet import FileLocation, encode
from batchmark.history.rows import history_rows
from batchmark.history.series import series_histories
from batchmark.history.store import HistoryStore
from tests.builders.history import BUCKET, REGION, two_targets
from tests.builders.hostile import damaged, fuzz
from tests.builders.noise import quick_and_long
from tests.builders.runs import PRICES
from tests.stand_ins.bucket import MemoryBucket

GOOD = [row for day in range(9) for row in history_rows(two_targets(day), PRICES)]
TABLE = pa.Table.from_pylist(history_rows(two_targets(9), PRICES), schema=SCHEMA)
MONTH = "history/suite=blog/month=2026-11/"
EXTREMES = {
    pa.int32(): (0, -1, 2**31 - 1),
    pa.int64(): (0, -(2**63), 2**63 - 1),
    pa.float64(): (0.0, -1.0, 5e-324, 1.7e308, np.nan, np.inf, -np.inf),
    pa.string(): ("", "\0", "[", "{}", '{"size": null}', "[[]]", "cuda", "x" * 70_000, "\n<b>"),
    pa.timestamp("us"): (0, -(2**63) + 1, 2**63 - 1),
    pa.bool_(): (True,),
}
OTHERS = (
    pa.array([["a"]] * 4),
    pa.array([{"run_id": "a"}] * 4),
    pa.array([b"\xff"] * 4),
    pa.array([1, 2, 3, 4], pa.uint64()),
    pa.array(["1", None, "a", "2"]).dictionary_encode(),
    pa.array([2**40] * 4, pa.timestamp("s")),
    pa.array([None] * 4, pa.null()),
    pa.array([1] * 4, pa.date32()),
    pa.array([1.0] * 4, pa.float16()),
)


@st.composite
def tables(draw):
    """Good rows with up to four columns changed: extreme, null, foreign, gone or doubled."""
    names, columns = list(TABLE.column_names), list(TABLE.columns)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(names) - 1))
        kind = columns[place].type
        how = draw(st.sampled_from(("extreme", "extreme", "null", "foreign", "gone", "doubled")))
        if how == "gone":
            del names[place], columns[place]
        elif how == "doubled":
            names.append(names[place])
            columns.append(columns[place])
        elif how == "foreign":
            columns[place] = draw(st.sampled_from(OTHERS))
        elif how == "null" or kind not in EXTREMES:
            columns[place] = pa.nulls(4, kind)
        else:
            values = st.sampled_from((None, *EXTREMES[kind]))
            columns[place] = pa.array(draw(st.lists(values, min_size=4, max_size=4)), kind)
    return names, columns


def written(made):
    body = BytesIO()
    pq.write_table(pa.table(made[1], made[0]), body, store_schema=False)
    return body.getvalue()


FILES = tables().map(written) | damaged(encode(TABLE)) | st.binary(max_size=50)
GOOD_FILE = encode(pa.Table.from_pylist(GOOD, schema=SCHEMA))


def check(body, folder):
    s3 = MemoryBucket(BUCKET, REGION)
    history = HistoryStore(s3, BUCKET)
    s3.objects[FileLocation("blog", "2026-11", "good").key] = GOOD_FILE
    s3.objects[MONTH + "hostile.parquet"] = body
    table = history.read(ALL_COLUMNS)
    assert table.num_rows >= len(GOOD)
    assert (table.num_rows == len(GOOD)) >= bool(history.unreadable)
    assert {row["run_id"] for row in GOOD} <= set(table["run_id"].to_pylist())
    for metric in Metric:
        histories = series_histories(table, metric)
        detect_changes(histories)
        if metric == "time":
            weigh(histories, two_targets(8).run_id, {})
    run_conditions(table.to_pylist())
    for export in (asv, bencher, pyperf):
        json.dumps(list(export.files(table)))
    csv.write([table], folder / "history.csv")


@quick_and_long("examples", [8], [800], pytest.mark.timeout(1800))
def test_no_file_of_the_history_costs_more_than_itself(tmp_path, examples):
    fuzz(examples, check, FILES, st.just(tmp_path))
