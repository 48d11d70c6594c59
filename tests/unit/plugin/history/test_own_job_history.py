"""An own job's metrics in the history's series, overview and exports."""

import pyarrow as pa
import pytest

from batchmark.history.columns import SCHEMA
from batchmark.history.exports import asv, bencher
from batchmark.history.overview import overview
from batchmark.history.rows import history_rows
from batchmark.history.series import series_histories
from tests.builders.history import NOON, finished, run_of
from tests.builders.own_jobs import CPU, GPU, SMALL, SUITE, THROUGHPUT
from tests.builders.runs import PRICES, build_run


def table(rows):
    schema = SCHEMA.append(pa.field("suite", pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def test_metrics_have_no_speedup_stand_in_the_overview_in_their_unit_and_not_in_asvs_format():
    jobs = [finished(side.job(SMALL), NOON) for side in (GPU, CPU)]
    measured = table(history_rows(run_of(*jobs), PRICES))
    assert not any(one.key.is_metric for one in series_histories(measured, "speedup"))
    assert sum(one.key.is_metric for one in series_histories(measured, "time")) == 2
    about = dict(asv.files(measured))["benchmarks.json"]["job-thumbnails.thumbnails"]
    assert set(about["param_names"]) == {"size", "start"}
    text = "\n".join(overview(SUITE, measured))
    assert "thumbnails size 64, start warm, throughput (images/s), g5.xlarge" in text
    assert "images/s" in text.split("throughput (images/s), g5.xlarge")[1].splitlines()[1]
    assert "none" not in text


def test_bencher_gets_a_metric_as_a_measure_of_its_job_and_keeps_those_of_one_name_apart():
    told = {
        ("latency", "ms", "lower"): (3.0,),
        ("latency", "s", "lower"): (0.003,),
        ("speed", "", "higher"): (7.0,),
        ("speed", "", "lower"): (8.0,),
        THROUGHPUT: (9.0,),
    }
    job = GPU.job(told=told)
    _, report = next(iter(bencher.files(table(history_rows(build_run(job), PRICES)))))
    ((name, measures),) = report.items()
    assert name == "job-thumbnails/thumbnails size=64 start=warm"
    assert measures.pop("latency")["value"] == pytest.approx(1e9 * GPU.seconds(SMALL), rel=0.1)
    assert {name: figures["value"] for name, figures in measures.items()} == pytest.approx(
        {
            "latency (ms, lower is better)": 3.0,
            "latency (s, lower is better)": 0.003,
            "speed (higher is better)": 7.0,
            "speed (lower is better)": 8.0,
            "throughput (images/s, higher is better)": 9.0,
        }
    )
