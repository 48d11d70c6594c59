"""What tasks that share a device get of it, and how many of them may."""

from batchmark.analysis.sharing.studies import STUDY, find

__all__ = ["STUDY", "find"]
