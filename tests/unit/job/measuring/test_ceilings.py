"""The device's own ceilings, on the CPU with small bounds."""

from functools import partial
from unittest import mock

import pytest
import torch
from torch.overrides import TorchFunctionMode

from batchmark_job.measuring import ceilings
from batchmark_job.measuring.ceilings import BOUNDS, Bounds, measure_ceilings
from batchmark_job.workloads.support import torch_calls

SMALL = Bounds(seconds=0.02, smallest_product=32, largest_product=64, copy_bytes=2**16)


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch):
    monkeypatch.setattr("batchmark_job.machine.fingerprint.last_level_cache_bytes", lambda: 2**15)


class TimerBy:
    """Calls of one library take half as long as all others."""

    def __init__(self, quicker):
        self.quicker = quicker

    def seconds(self, call):
        with TorchCalls() as seen:
            result = call()
        return 1e-9 if (self.quicker == "torch") == bool(seen.called) else 2e-9, result


class TorchCalls(TorchFunctionMode):
    """Notes each of torch's functions that is called."""

    def __init__(self):
        super().__init__()
        self.called = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.called.append(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("quicker", "names"),
    [
        ("torch", ["torch copy_", "torch sum", "torch.mm"]),
        ("numpy", ["numpy.copyto in 2 threads", "numpy.max in 2 threads", "numpy.matmul"]),
    ],
)
def test_the_quicker_library_s_rate_is_the_ceiling(quicker, names, monkeypatch):
    """What was done over its time, once for each dtype."""
    monkeypatch.setattr(torch_calls, "threads", lambda: 2)
    monkeypatch.setattr(ceilings, "timer_for", lambda device: TimerBy(quicker))
    one_size = SMALL._replace(smallest_product=64, copy_bytes=2**17)
    found = measure_ceilings("cpu", ["float32", "float64", "float32"], one_size)
    assert [ceiling.description.partition(" of ")[0] for ceiling in found] == [*names, names[-1]]
    assert [(ceiling.kind, ceiling.dtype, ceiling.rate_per_second) for ceiling in found] == [
        ("copy", None, pytest.approx(2 * 2**17 * 1e9)),
        ("read", None, pytest.approx(2**17 * 1e9)),
        ("compute", "float32", pytest.approx(2 * 64**3 * 1e9)),
        ("compute", "float64", pytest.approx(2 * 64**3 * 1e9)),
    ]


def test_a_cpu_has_no_ceiling_for_what_it_has_no_arithmetic_for(monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: False)
    found = measure_ceilings("cpu", ["float16", "tf32", "no_such_dtype"], SMALL)
    assert [ceiling.kind for ceiling in found] == ["copy", "read"]


def test_every_call_has_three_rounds_however_short_the_time():
    calls = []
    ceilings._fastest({name: partial(calls.append, name) for name in "ab"}, TimerBy("numpy"))
    assert calls == ["a"] * 3 + ["b"] * 3


def test_products_and_copies_shrink_where_memory_is_short(monkeypatch):
    available = 218_000  # of which 90 % may be used
    monkeypatch.setattr("batchmark_job.machine.memory.available_host_bytes", lambda: available)
    monkeypatch.setattr("batchmark_job.machine.fingerprint.last_level_cache_bytes", lambda: None)
    products = mock.Mock(wraps=ceilings._products)
    monkeypatch.setattr(ceilings, "_products", products)
    copy, _, product = measure_ceilings("cpu", ["float32"], SMALL._replace(smallest_product=64))
    ((size, *_),) = (call.args for call in products.mock_calls)
    assert size == 32  # 3 · 64² · 4 bytes are more than a quarter of what there is
    assert product.description.endswith(" of 32 x 32")
    assert copy.description.endswith(" of 0 MiB")


def test_a_copy_fills_the_cache_more_than_once_or_is_no_ceiling(monkeypatch, capsys):
    with monkeypatch.context() as larger:
        larger.setattr("batchmark_job.machine.fingerprint.last_level_cache_bytes", lambda: 2**20)
        found = measure_ceilings("cpu", [], SMALL)
    assert all(ceiling.description.endswith(" of 2 MiB") for ceiling in found)
    assert len(found) == 2
    monkeypatch.setattr("batchmark_job.machine.memory.available_host_bytes", lambda: 80_000)
    assert measure_ceilings("cpu", [], SMALL) == ()
    assert capsys.readouterr().out.splitlines() == [
        f"batchmark-job: warning: could not measure the peak {kind} rate: ran out of memory: "
        "there is not enough memory for data larger than the cache"
        for kind in ("copy", "read")
    ]


def test_a_failure_is_one_warning_and_no_ceiling(monkeypatch, capsys):
    error = RuntimeError("CUDA error: unspecified\nlaunch failure")
    monkeypatch.setattr(ceilings, "_products", mock.Mock(side_effect=error))
    found = measure_ceilings("cpu", ["float32"], SMALL)
    assert [ceiling.kind for ceiling in found] == ["copy", "read"]
    assert capsys.readouterr().out == (
        "batchmark-job: warning: could not measure the peak float32 rate: "
        "RuntimeError: CUDA error: unspecified\n"
    )


def test_tf32_is_switched_on_for_its_own_product_only(monkeypatch):
    seen = []
    products = ceilings._products

    def recorded(size, device, dtype):
        seen.append((dtype, torch.backends.cuda.matmul.allow_tf32))
        return products(size, device, dtype)

    monkeypatch.setattr(ceilings, "_products", recorded)
    monkeypatch.setattr(torch_calls, "native_refusal", lambda device, dtype: None)
    one_size = SMALL._replace(largest_product=32)
    measure_ceilings("cpu", ["float32", "tf32"], one_size)
    assert seen == [("float32", False), ("tf32", True)]
    assert torch.backends.cuda.matmul.allow_tf32 is False


def test_the_copy_is_larger_than_the_largest_gpu_cache():
    assert BOUNDS["cuda"].copy_bytes >= 4 * 126 * 2**20  # B200's L2
