"""Each CPU implementation against the float64 reference, and wrong ones being found out."""

import threading

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from batchmark_job.machine.threads import set_threads
from batchmark_job.workloads.base import DTYPE_BYTES, TOLERANCES
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.edge_detection import OpenCVSobelInBands, TorchSobel
from batchmark_job.workloads.gaussian_blur import OpenCVBlurInBands, TorchBlur
from batchmark_job.workloads.image_convolution import TiledConvolution
from batchmark_job.workloads.support import opencv_tensors, torch_calls
from batchmark_job.workloads.support.work_sharing import share_out
from tests.builders.outputs import able, error_of, output_of, wrongness
from tests.waiting import PATIENCE_SECONDS

ATTENTION = [
    {"sequence": 1, "heads": 1, "head_dim": 1, "batch": 1},
    {"sequence": 37, "heads": 3, "head_dim": 16, "batch": 2},
]
SIZES = {
    "matmul": [{"size": 1}, {"size": 3}, {"size": 65}],
    "image_convolution": [
        {"size": 2, "batch": 1},
        {"size": 3, "batch": 2},
        {"size": 37, "batch": 1},
        {"size": 64, "batch": 3},
    ],
    "gaussian_blur": [{"size": 8, "batch": 1}, {"size": 61, "batch": 3}],
    "edge_detection": [{"size": 2, "batch": 1}, {"size": 61, "batch": 3}],
    "fft": [{"size": 2, "batch": 1}, {"size": 37, "batch": 3}, {"size": 64, "batch": 2}],
    "sort": [{"size": 1}, {"size": 1001}],
    "reduction": [{"size": 1}, {"size": 1001}],
    "attention_forward": ATTENTION,
    "attention_backward": ATTENTION,
}
IMAGES = ("image_convolution", "gaussian_blur", "edge_detection")
CASES = [
    pytest.param(
        WORKLOADS[name],
        implementation,
        parameters,
        dtype,
        id="-".join([name, implementation.name, *map(str, parameters.values()), dtype]),
    )
    for name, grid in SIZES.items()
    for implementation in WORKLOADS[name].implementations_for("cpu")
    for parameters in grid
    for dtype in implementation.dtypes
    if implementation.refusal("cpu", dtype) is None  # no job runs it either
]


@pytest.mark.parametrize(("workload", "implementation", "parameters", "dtype"), CASES)
def test_implementation_is_correct_and_leaves_inputs_of_the_stated_size(
    workload, implementation, parameters, dtype
):
    inputs, output = output_of(workload, implementation, parameters, dtype)
    assert wrongness(workload, inputs, output) <= workload.tolerance(dtype)
    fresh = implementation.arrange(workload.make_inputs(parameters, dtype, seed=7))
    assert all(torch.equal(*pair) for pair in zip(inputs, fresh, strict=True))
    assert not torch.equal(inputs[0], workload.make_inputs(parameters, dtype, seed=8)[0])
    input_bytes = sum(tensor.nbytes for tensor in inputs)
    assert workload.input_bytes(parameters, dtype) == input_bytes
    assert workload.output_bytes(parameters, dtype) == output.nbytes
    assert implementation.working_set_bytes(parameters, dtype) >= input_bytes + output.nbytes


def computed(implementation, inputs):
    with torch.inference_mode():
        return implementation.prepare(implementation.arrange(inputs))()


# Sizes that leave tiles and bands of all kinds: whole, cut off at a side, cut off at a corner.
@pytest.mark.parametrize(
    ("name", "implementation", "parameters"),
    [
        ("image_convolution", TiledConvolution(), {"size": 259, "batch": 2}),
        ("image_convolution", TiledConvolution(), {"size": 514, "batch": 1}),
        ("gaussian_blur", OpenCVBlurInBands(), {"size": 131, "batch": 2}),
        ("edge_detection", OpenCVSobelInBands(), {"size": 131, "batch": 2}),
    ],
)
def test_no_seam_shows_between_tiles_and_bands(name, implementation, parameters):
    """The reference looks at a sample of the output; this at all of it."""
    set_threads(3)
    workload = WORKLOADS[name]
    inputs = workload.make_inputs(parameters, "float64", seed=3)
    whole = computed(workload.implementations[0], inputs)
    pieces = computed(implementation, inputs)
    assert torch.allclose(pieces, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", WORKLOADS)
def test_who_asks_for_tf32_alone_on_the_cpu_is_told_why_not(name):
    assert not able(WORKLOADS[name], "tf32")
    if name in {"matmul", "image_convolution"}:
        assert all(able(WORKLOADS[name], dtype) for dtype in set(DTYPE_BYTES) - {"tf32"})
    if name in {"matmul", "image_convolution", "attention_backward"}:  # not all have it on CUDA
        assert WORKLOADS[name].implementations[0].refusal("cpu", "tf32") == (
            "tf32 requires CUDA tensor cores; measure float32 on the CPU instead"
        )


def test_16_bits_are_refused_where_they_may_hang_or_are_not_supported():
    blur = TorchBlur()
    assert "can hang" in (blur.refusal("cpu", "float16") or "")
    assert blur.refusal("cuda", "float16") is None
    assert blur.refusal("cpu", "float32") is None
    assert WORKLOADS["gaussian_blur"].implementations[0].refusal("cpu", "float16") == (
        "opencv does not support float16; it supports float32, float64"
    )


@pytest.mark.parametrize("name", ["matmul", *IMAGES])
def test_versions_name_the_library_that_works(name):
    libraries = {"torch": torch.__version__, "opencv": cv2.__version__, "numpy": np.__version__}
    for implementation in able(WORKLOADS[name], "float32"):
        library = implementation.name.split()[0]
        assert implementation.version().startswith(libraries.get(library, "1."))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SIZES)
def test_small_errors_nan_and_infinity_are_found_out(name, dtype):
    workload, parameters = WORKLOADS[name], SIZES[name][-1]
    tolerance, one = workload.tolerance(dtype), torch.tensor([0])
    if name != "sort":  # it must be exact
        for spoil in (lambda output: output * (1 + 3 * tolerance), torch.zeros_like):
            assert error_of(workload, parameters, dtype, spoil) > tolerance
    for spoil in [lambda output, v=v: output.index_fill(-1, one, v) for v in (np.nan, np.inf)]:
        assert not np.isfinite(error_of(workload, parameters, dtype, spoil))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["matmul", *IMAGES])
def test_values_in_wrong_places_are_found_out(name, dtype):
    """Rows for columns, values beside their places, and images for each other."""
    workload, parameters = WORKLOADS[name], SIZES[name][-1]
    in_other_places = [lambda output: output.transpose(-1, -2), lambda output: output.roll(1, -1)]
    if "batch" in parameters:
        in_other_places.append(lambda output: output.flip(0))
    for spoil in in_other_places:
        assert error_of(workload, parameters, dtype, spoil) > 100 * TOLERANCES[dtype]


def test_wrong_borders_are_found_out():
    """Zeros around the image instead of its reflection."""
    blur, edges = WORKLOADS["gaussian_blur"], WORKLOADS["edge_detection"]
    for workload, implementation, halo in ((blur, TorchBlur(), 7), (edges, TorchSobel(), 1)):
        parameters = {"size": 512, "batch": 2}
        inputs = workload.make_inputs(parameters, "float32", seed=7)
        with torch.inference_mode():
            framed = (F.pad(inputs[0], (halo,) * 4),)
            output = implementation.prepare(framed)()[:, :, halo:-halo, halo:-halo]
        assert wrongness(workload, inputs, output) > 100 * TOLERANCES["float32"]


@pytest.mark.parametrize("border", [cv2.BORDER_REFLECT, cv2.BORDER_REPLICATE])
def test_borders_that_are_off_by_one_are_found_out(border):
    """The border's own row counted twice."""
    workload = WORKLOADS["edge_detection"]
    inputs = workload.make_inputs({"size": 200, "batch": 1}, "float32", seed=7)
    (image,) = opencv_tensors.views(inputs[0])
    gradients = [cv2.Sobel(image, -1, *order, borderType=border) for order in ((1, 0), (0, 1))]
    output = torch.from_numpy(cv2.magnitude(*gradients)).permute(2, 0, 1).unsqueeze(0)
    assert wrongness(workload, inputs, output) > 100 * TOLERANCES["float32"]


def test_hidden_values_outside_the_image_are_found_out():
    """The first layer's own values there instead of zeros."""
    workload = WORKLOADS["image_convolution"]
    inputs = workload.make_inputs({"size": 64, "batch": 1}, "float32", seed=7)
    images, first, first_bias, second, second_bias = inputs
    hidden = F.conv2d(F.pad(images, (2, 2, 2, 2)), first, first_bias).relu()
    output = F.max_pool2d(F.conv2d(hidden, second, second_bias).relu(), 2)
    assert wrongness(workload, inputs, output) > 100 * TOLERANCES["float32"]


@pytest.mark.parametrize("name", ["matmul", *IMAGES])
def test_arithmetic_in_float32_is_found_out_in_a_float64_row(name):
    workload = WORKLOADS[name]
    inputs = workload.make_inputs(SIZES[name][-1], "float64", seed=7)
    implementation = workload.implementations[0]
    output = computed(implementation, tuple(tensor.float() for tensor in inputs)).double()
    assert wrongness(workload, inputs, output) > 100 * TOLERANCES["float64"]


def test_convolution_agrees_with_plain_torch():
    workload = WORKLOADS["image_convolution"]
    inputs = workload.make_inputs({"size": 38, "batch": 2}, "float64", seed=1)
    images, first, first_bias, second, second_bias = inputs
    expected = F.conv2d(images, first, first_bias, padding="same").relu()
    expected = F.conv2d(expected, second, second_bias, padding="same").relu()
    expected = F.max_pool2d(expected, 2)
    for implementation in able(workload, "float64"):
        assert torch.allclose(computed(implementation, inputs), expected, rtol=0, atol=1e-12)
    assert (expected == 0).any(), "ReLU must have something to cut off"


@pytest.mark.parametrize(
    ("name", "parameters", "flops", "bytes_moved"),
    [
        ("matmul", {"size": 1000}, 2 * 10**9, 12 * 10**6),
        # 3·9·16 and 16·9·32 multiply-adds per pixel; 3 channels in, 32/4 out, 5,088 weights.
        ("image_convolution", {"size": 100, "batch": 2}, 201_600_000, 880_000 + 20_352),
        ("gaussian_blur", {"size": 100, "batch": 2}, 60 * 60_000, 2 * 60_000 * 4),
        ("edge_detection", {"size": 100, "batch": 2}, 26 * 60_000, 2 * 60_000 * 4),
        # 2.5 · 1024² · 20 operations; 4 bytes in and (513 / 512) · 4 bytes out per pixel.
        ("fft", {"size": 1024, "batch": 1}, 50 * 1024**2, 4 * 1024**2 + 8 * 1024 * 513),
        ("fft", {"size": 1024, "batch": 2}, 2 * 50 * 1024**2, 8 * 1024**2 + 16 * 1024 * 513),
        ("sort", {"size": 10}, None, 80),
        ("reduction", {"size": 10}, 9, 44),
    ],
)
def test_formulas(name, parameters, flops, bytes_moved):
    assert WORKLOADS[name].flops(parameters) == flops
    assert WORKLOADS[name].bytes_moved(parameters, "float32") == bytes_moved


@pytest.mark.parametrize(
    "implementation", [TiledConvolution(), OpenCVBlurInBands(), OpenCVSobelInBands()]
)
def test_working_set_counts_every_thread(implementation):
    parameters = {"size": 512, "batch": 1}
    sizes = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        sizes.append(implementation.working_set_bytes(parameters, "float32"))
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] > 0


def test_bands_cover_each_row_once():
    image = np.arange(10.0).reshape(10, 1, 1)
    bands = opencv_tensors.bands([image], [image], rows=4, halo=3)
    assert [band.target.ravel().tolist() for band in bands] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [(band.source.min(), band.source.max()) for band in bands] == [(0, 6), (1, 9), (5, 9)]
    assert all(np.array_equal(band.source[band.inner], band.target) for band in bands)


def test_cudnn_searches_only_inside():
    """It tries all its algorithms there."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.benchmark_limit

    def search():
        with torch_calls.cudnn_search():
            assert (cudnn.benchmark, cudnn.benchmark_limit) == (True, 0)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        search()
    assert (cudnn.benchmark, cudnn.benchmark_limit) == before


def test_every_task_is_done_once_per_call_by_no_more_workers_than_there_are():
    done = []
    call = share_out(range(100), [done.append] * 3)
    call()
    call()
    assert sorted(done) == sorted([*range(100), *range(100)])
    share_out([1], [done.append] * 4)()
    assert done[200:] == [1]


def test_workers_work_at_the_same_time_and_in_one_thread_each():
    """Each waits until the others have begun, so that fewer threads would never end."""
    barrier = threading.Barrier(3, timeout=PATIENCE_SECONDS)

    def worker(own):
        def work(task):
            own.append(threading.get_ident())
            if task < 3:
                barrier.wait()

        return work

    threads = [[], [], []]
    share_out(range(30), [worker(own) for own in threads])()
    assert len({thread for own in threads for thread in own}) == 3
    assert all(len(set(own)) == 1 for own in threads)


def test_each_thread_computes_alone_and_an_error_reaches_the_caller():
    counts = []
    share_out(range(2), [lambda _: counts.append(torch.get_num_threads())] * 2)()
    assert counts == [1, 1]

    def work(task):
        if task == 5:
            raise ValueError("task 5 is broken")

    with pytest.raises(ValueError, match="task 5 is broken"):
        share_out(range(10), [work] * 2)()
