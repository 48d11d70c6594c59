"""Reports on distributed training in words, charts and tables, with a what-if prediction."""

from batchmark.report.scaling.answer import story
from batchmark.report.scaling.sections import sections
from batchmark.report.scaling.what_if import beside

__all__ = ["beside", "sections", "story"]
