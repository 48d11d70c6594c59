"""The history: one row per measurement of all runs, as Parquet files in the result bucket.

`python -m batchmark.history --help` rebuilds it, imports what other tools measured and exports it.
"""
