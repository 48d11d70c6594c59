"""Analyses own jobs: run times and metrics on each of their targets."""

from batchmark.analysis.own_jobs.studies import STUDY, find

__all__ = ["STUDY", "find"]
