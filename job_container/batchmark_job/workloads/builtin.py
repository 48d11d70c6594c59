"""The built-in workloads, one file each, keyed by name."""

from __future__ import annotations

from batchmark_job.workloads import (
    attention,
    cnn_training_step,
    edge_detection,
    fft,
    gaussian_blur,
    image_convolution,
    matmul,
    reduction,
    resnet50,
    sort,
)
from batchmark_job.workloads.base import Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        matmul.Matmul(),
        image_convolution.ImageConvolution(),
        gaussian_blur.GaussianBlur(),
        edge_detection.EdgeDetection(),
        fft.Fft(),
        sort.Sort(),
        reduction.Reduction(),
        attention.AttentionForward(),
        attention.AttentionBackward(),
        cnn_training_step.CnnTrainingStep(),
        resnet50.ResNet50Inference(),
        resnet50.ResNet50Training(),
    )
}
