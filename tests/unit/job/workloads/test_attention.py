"""What only transform, sort, sum and attention have; test_workloads.py holds what all share."""

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from batchmark_job.workloads.attention import ExplicitAttention
from batchmark_job.workloads.builtin import WORKLOADS
from tests.builders.outputs import error_of, wrongness

ATTENTION = {"sequence": 37, "heads": 3, "head_dim": 16, "batch": 2}
SIZES = {
    "fft": {"size": 64, "batch": 2},
    "sort": {"size": 1001},
    "reduction": {"size": 1001},
    "attention_forward": ATTENTION,
    "attention_backward": ATTENTION,
}
FLOATS = ("float64", "float32", "float16", "bfloat16")


@pytest.mark.parametrize("name", ["fft", "attention_forward", "attention_backward"])
@pytest.mark.parametrize("axis", [0, -2])
def test_outputs_out_of_order_are_found_out(name, axis):
    """Images, gradients, frequencies or tokens."""
    workload = WORKLOADS[name]
    parameters = SIZES[name] | {"attention_forward": {"batch": 3}}.get(name, {})
    error = error_of(workload, parameters, "float32", lambda output: output.roll(1, axis))
    assert error > 100 * workload.tolerance("float32")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda keys: keys.flip(0),
        lambda keys: keys.index_copy(0, torch.tensor([5, 6]), keys[[6, 5]]),
        lambda keys: keys.index_copy(0, torch.tensor([5]), keys[[6]]),
        lambda keys: torch.nextafter(keys, torch.tensor(2.0)),
        torch.zeros_like,
    ],
    ids=["descending", "two swapped", "one lost", "all a bit larger", "zero"],
)
def test_sort_must_be_exact(spoil):
    assert error_of(WORKLOADS["sort"], {"size": 100_000}, "float32", spoil) > 0


def test_transform_and_sum_are_held_against_exact_ones():
    workload = WORKLOADS["reduction"]
    inputs = workload.make_inputs({"size": 100_003}, "float32", seed=1)
    exact = math.fsum(inputs[0].tolist())
    right, off = torch.tensor([exact, exact * (1 + 1e-9)], dtype=torch.float64)
    assert wrongness(workload, inputs, right) < 1e-15
    assert wrongness(workload, inputs, off) == pytest.approx(1e-9, rel=1e-3)
    workload = WORKLOADS["fft"]
    inputs = workload.make_inputs({"size": 30, "batch": 2}, "float64", seed=3)
    expected = torch.from_numpy(np.fft.rfft2(inputs[0].numpy()))
    assert wrongness(workload, inputs, expected) < 1e-14


@pytest.mark.parametrize(("name", "backward"), [("forward", False), ("backward", True)])
def test_attention_flops_are_those_counted(name, backward):
    workload = WORKLOADS[f"attention_{name}"]
    call = ExplicitAttention().prepare(workload.make_inputs(ATTENTION, "float32", seed=1))
    with FlopCounterMode(display=False) as counter:
        call()
    assert workload.flops(ATTENTION) == counter.get_total_flops()


class Operations(TorchDispatchMode):
    """The names of all that torch computes."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **kwargs or {})


def test_the_first_transform_is_the_cold_call():
    """It plans; a transform made to learn the output's shape would have planned before it."""
    workload = WORKLOADS["fft"]
    inputs = workload.make_inputs({"size": 8, "batch": 2}, "float32", seed=7)
    with torch.inference_mode(), Operations() as preparing:
        call = workload.implementations[0].prepare(inputs)
    with torch.inference_mode(), Operations() as calling:
        call()
    assert not [name for name in preparing.names if "fft" in name]
    assert [name for name in calling.names if "fft" in name]


def test_sorts_of_several_inputs_share_their_output():
    workload = WORKLOADS["sort"]
    sets = [workload.make_inputs({"size": 8}, "float32", seed) for seed in (1, 2)]
    with torch.inference_mode():
        first, second = (call() for call in workload.implementations[0].prepare_each(sets))
    assert first.data_ptr() == second.data_ptr()


def test_attention_counts_the_copy_that_packs_its_gradients_and_a_sum_its_copy_in_float32():
    # Of 7 tensors read and written by the kernel, three are copied.
    parameters = {"sequence": 5, "heads": 3, "head_dim": 2, "batch": 1}
    assert WORKLOADS["attention_backward"].bytes_moved(parameters, "float32") == (7 + 6) * 30 * 4
    assert WORKLOADS["attention_forward"].bytes_moved(parameters, "float32") == 4 * 30 * 4
    torch_sum = WORKLOADS["reduction"].implementations[0]
    needed = {dtype: torch_sum.working_set_bytes({"size": 100}, dtype) for dtype in FLOATS}
    assert needed == {"float64": 808, "float32": 408, "float16": 608, "bfloat16": 608}


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_sum_is_kept_in_float32_and_takes_no_more_memory_than_it_says(dtype):
    """On the CPU, by what torch's allocator says it gave out."""
    workload = WORKLOADS["reduction"]
    torch_sum = workload.implementations[0]
    inputs = workload.make_inputs({"size": 10**6}, dtype, seed=7)
    call = torch_sum.prepare(inputs)
    assert call().dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert call().item() == pytest.approx(10**6 / 2, rel=0.01)
    with torch.profiler.profile(profile_memory=True) as profile:
        call()
    given = sum(max(0, event.self_cpu_memory_usage) for event in profile.events())
    needed = torch_sum.working_set_bytes({"size": 10**6}, dtype)
    assert 0.99 * needed <= inputs[0].nbytes + given <= 1.01 * needed
