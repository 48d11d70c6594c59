"""Softmax over the rows of a matrix."""

import numpy as np
import torch

AXES = {"rows": (1000, 4000), "columns": (1000,)}  # the sizes that the suite `own` measures


# Not timed; random numbers are seeded before. dtype is torch's: keep the argument, even if unused.
def set_up(dtype, rows, columns):
    return torch.randn(rows, columns, dtype=dtype)


def step(matrix):  # timed; the matrix is on the device by now. NumPy code goes into step_cpu
    return torch.softmax(matrix, dim=1)


def reference(matrix):  # what step must give, from float64 NumPy arrays
    exponentials = np.exp(matrix - matrix.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def elements_moved(rows, columns):  # optional: read and written at least, for the roofline
    return 2 * rows * columns
