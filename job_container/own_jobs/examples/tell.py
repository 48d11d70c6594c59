"""Reports one metric through the metrics file, and another on standard output."""

import json
import os

rate = {"metric": "throughput", "value": 120.5, "unit": "images/s", "higher_is_better": True}
with open(os.environ.get("BATCHMARK_METRICS", os.devnull), "a") as file:
    print(json.dumps(rate), file=file)
size = {"metric": "encoded", "value": 3.25, "unit": "MB", "higher_is_better": False}
print("BATCHMARK_METRIC", json.dumps(size), flush=True)
