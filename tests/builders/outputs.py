"""What implementations make of a workload's inputs, and how wrong it is."""

import numpy as np
import torch


def output_of(workload, implementation, parameters, dtype):
    """The inputs as the implementation takes them, and what it makes of them."""
    inputs = implementation.arrange(workload.make_inputs(parameters, dtype, seed=7))
    with torch.inference_mode(not workload.needs_gradients):
        return inputs, implementation.prepare(inputs)().detach()


def wrongness(workload, inputs, output):
    """How wrong an output is, where the check looks at it."""
    return workload.relative_error(inputs, output, np.random.default_rng(7))


def able(workload, dtype):
    """The implementations that take this dtype on the CPU."""
    implementations = workload.implementations_for("cpu")
    return [each for each in implementations if each.refusal("cpu", dtype) is None]


def error_of(workload, parameters, dtype, spoil):
    """The error of the first able implementation's output, spoilt."""
    inputs, output = output_of(workload, able(workload, dtype)[0], parameters, dtype)
    return wrongness(workload, inputs, spoil(output))
