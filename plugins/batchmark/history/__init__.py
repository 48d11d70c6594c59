"""The history of all runs: one row per measurement, in Parquet files in the result bucket.

`python -m batchmark.history --help` lists the commands to rebuild, import and export it.
"""
