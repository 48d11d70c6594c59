"""A sample installation to look at: a year of made-up runs, judged and drawn by the product itself.

`make demo` writes its pages. Nothing but these pages leaves the process that makes them.
"""

MADE_UP = "Made-up data"
NOTICE = (
    f"{MADE_UP}: a sample to look at. No figure, price or date on this page was measured. Only "
    "some runs have their report here."
)
