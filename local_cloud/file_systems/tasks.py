"""Data repository tasks: the import that an association begins by itself once it is there.

Source: FSx API Reference, DescribeDataRepositoryTasks and DeleteFileSystem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from local_cloud.file_systems.records import Association, ImportTask

BUSY = "The file system has a data repository task that is pending or executing"
MOST_PER_PAGE = 1000
ID_PREFIX = "task-"


def of(
    association: Association, task_id: str, arn: str, begun: float, seconds: float
) -> ImportTask:
    return ImportTask(
        id=task_id,
        resource_arn=arn,
        request={},
        created_at=begun,
        due_at=begun + seconds,
        lifecycle="EXECUTING",
        association_id=association.id,
        file_system_id=association.file_system_id,
        path=association.path,
    )


def kept(task: ImportTask, filters: Sequence[dict[str, Any]]) -> bool:
    """Whether a task has what all filters ask for."""
    fields = {
        "file-system-id": task.file_system_id,
        "data-repository-association-id": task.association_id,
        "task-lifecycle": task.lifecycle,
    }
    return all(fields.get(each["Name"]) in (each.get("Values") or []) for each in filters)
