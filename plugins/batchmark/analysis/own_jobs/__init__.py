"""Analyses users' own jobs: their run times and metrics on each target."""

from batchmark.analysis.own_jobs.studies import STUDY, find

__all__ = ["STUDY", "find"]
