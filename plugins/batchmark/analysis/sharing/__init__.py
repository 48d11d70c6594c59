"""Analyses tasks that share a device: how much each one gets, and how many should share."""

from batchmark.analysis.sharing.studies import STUDY, find

__all__ = ["STUDY", "find"]
