"""The workloads by name, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark_job.workloads import edge_detection, gaussian_blur, image_convolution, matmul

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        matmul.Matmul(),
        image_convolution.ImageConvolution(),
        gaussian_blur.GaussianBlur(),
        edge_detection.EdgeDetection(),
    )
}
