"""What the events of assets tell."""

import json

from batchmark.orchestration.assets import results_metadata


def test_the_event_of_results_names_the_new_rows():
    told = results_metadata("run-30", ["history/a.parquet"], 42, ["g5.xlarge", "g5.xlarge"])
    assert json.loads(json.dumps(told)) == {
        "run_id": "run-30",
        "history_keys": ["history/a.parquet"],
        "rows": 42,
        "targets": ["g5.xlarge"],
    }
