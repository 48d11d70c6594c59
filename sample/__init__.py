"""A sample installation to explore: a made-up year of runs, analysed and shown by Batchmark.

`make demo` writes its pages, without contacting AWS or a real Airflow.
"""

MADE_UP = "Made-up data"
NOTICE = (
    f"{MADE_UP}: a sample to explore. No figure, price or date on this page is from a real run. "
    "Only some runs have a report here. The sample's own job is convert."
)
