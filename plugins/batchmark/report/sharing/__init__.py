"""Reports on tasks that share a device, in words, charts and tables."""

from batchmark.report.sharing.answer import story
from batchmark.report.sharing.sections import sections

__all__ = ["sections", "story"]
