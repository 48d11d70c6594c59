"""Rows of tasks that share a device."""

from batchmark_job.sharing.row import Choice, SharingRow
from batchmark_job.workloads.builtin import WORKLOADS


def sharing_row(size, point):
    """Products of two matrices of this size."""
    task = {"size": size}
    return SharingRow(
        WORKLOADS["matmul"],
        task | point.parameters(),
        "float32",
        task_parameters=task,
        point=point,
        choice=Choice(),
    )
