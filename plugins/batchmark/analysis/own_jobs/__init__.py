"""Own jobs: whole jobs and their metrics on all their targets."""

from batchmark.analysis.own_jobs.studies import STUDY, find

__all__ = ["STUDY", "find"]
