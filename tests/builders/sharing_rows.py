"""Rows of tasks that share a device."""

from batchmark_job.measuring.rows import Row
from batchmark_job.sharing.row import SharingRow
from batchmark_job.workloads.builtin import WORKLOADS


def sharing_row(size, point):
    """Products of two matrices of this size."""
    workload, task = WORKLOADS["matmul"], {"size": size}
    return SharingRow(
        workload,
        task | point.parameters(),
        "float32",
        task=Row(workload, task, "float32"),
        point=point,
    )
