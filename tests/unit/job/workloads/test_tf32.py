"""Tolerances of tf32, against operands rounded to nearest and cut off after 10 bits."""

import numpy as np
import pytest
import torch

from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.support import torch_calls
from tests.stand_ins import cuda
from tests.stand_ins.cuda.tensor_cores import TensorCores

SEEDS = 4
ATTENTION = {"sequence": 256, "heads": 4, "head_dim": 64, "batch": 1}
POINTS = {
    "matmul": {"size": 512},
    "image_convolution": {"size": 64, "batch": 2},
    "attention_forward": ATTENTION,
    "attention_backward": ATTENTION,
    "cnn_training_step": {"batch": 2},
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="a device rounds by itself")
@pytest.mark.parametrize("truncating", [False, True])
@pytest.mark.parametrize("name", POINTS)
def test_correct_arithmetic_is_within_the_tolerance(name, truncating):
    workload, errors = WORKLOADS[name], []
    with cuda.installed("A10G") as gpu, TensorCores(gpu, truncating=truncating):
        for rival in workload.implementations_for("cuda"):
            if rival.refusal("cuda", "tf32") or rival.plain() is not rival:
                continue
            for seed in range(SEEDS):
                inputs = rival.arrange(workload.make_inputs(POINTS[name], "tf32", seed))
                gradients = torch.inference_mode(not workload.needs_gradients)
                with gradients, torch_calls.precision("tf32"):
                    output = rival.prepare(inputs)()
                rng = np.random.default_rng(seed)
                errors.append(workload.relative_error(inputs, output, rng))
    assert workload.tolerance("tf32") / 100 < max(errors) < workload.tolerance("tf32") / 1.5
