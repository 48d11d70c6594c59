"""Analyses tasks that share a device: what each gets, and how many should share."""

from batchmark.analysis.sharing.studies import STUDY, find

__all__ = ["STUDY", "find"]
