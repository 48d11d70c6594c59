"""Analyses multi-node training: how far it scales, and what limits it."""

from batchmark.analysis.scaling.studies import STUDY, find

__all__ = ["STUDY", "find"]
