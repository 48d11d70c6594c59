"""Reports on users' own jobs in words, tables and charts."""

from batchmark.report.own_jobs.answer import story
from batchmark.report.own_jobs.sections import sections

__all__ = ["sections", "story"]
