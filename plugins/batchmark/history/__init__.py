"""The history: one row per measurement of every run, as Parquet files in the result bucket.

`python -m batchmark.history --help` shows how to rebuild it, import into it and export it.
"""
