"""A sample installation to explore: a made-up year of runs, analysed and drawn by the product.

`make demo` writes its pages. Only these pages leave the process that makes them.
"""

MADE_UP = "Made-up data"
NOTICE = (
    f"{MADE_UP}: a sample to look at. No figure, price or date on this page was measured. Only "
    "some runs have their report here."
)
