"""Training steps and ResNet-50: the network is the one named, its figures and its check hold."""

import io
import math
import tarfile
from operator import attrgetter

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from batchmark_job.errors import InputError
from batchmark_job.machine import memory
from batchmark_job.measuring.entry import find_candidates
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.prepared import measuring_state
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.rows import Row
from batchmark_job.progress import describe
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.workloads import resnet50
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.support import cifar10, training, triton_filters
from batchmark_job.workloads.support.training import CompiledSgdStep, GraphedSgdStep, SgdStep
from tests.builders.outputs import output_of, wrongness
from tests.stand_ins.workers import bench_here

CNN = WORKLOADS["cnn_training_step"]
INFERENCE, TRAINING = WORKLOADS["resnet50_inference"], WORKLOADS["resnet50_training"]
name_of = attrgetter("name")


class SmallTraining(resnet50.ResNet50Training):
    """On a twelfth of the pixels: the float64 reference is what takes long."""

    image_size = 64


@pytest.fixture
def small_images(monkeypatch, thin_network):
    monkeypatch.setattr(resnet50, "IMAGE_SIZE", 64)


def check(workload, implementation, batch, dtype):
    inputs, output = output_of(workload, implementation, {"batch": batch}, dtype)
    assert workload.input_bytes({"batch": batch}, dtype) == sum(t.nbytes for t in inputs)
    assert workload.output_bytes({"batch": batch}, dtype) == output.nbytes
    return wrongness(workload, inputs, output)


def test_resnet50_has_its_published_number_of_weights_and_no_other(monkeypatch):
    assert sum(map(math.prod, resnet50.SHAPES)) == 25_557_032
    assert len(resnet50.LAYERS) == 53
    # The paper's and torchvision's 4.09 billion.
    assert resnet50.multiply_adds() == 4_089_184_256
    monkeypatch.setattr(resnet50, "SHAPES", resnet50.SHAPES[:-1])
    with pytest.raises(AssertionError, match="25,556,032 weights instead of 25,557,032"):
        resnet50.build([], [], resnet50.folded)


@pytest.mark.parametrize(
    ("workload", "shapes", "side"), [(TRAINING, resnet50.SHAPES, 224), (CNN, CNN.shapes, 32)]
)
def test_flops_are_those_counted(workload, shapes, side):
    """On the meta device: shapes alone are computed."""
    weights = [torch.empty(shape, device="meta", requires_grad=True) for shape in shapes]
    images = torch.empty(2, 3, side, side, device="meta")
    with torch.device("meta"):
        network = workload.network(weights)
    with FlopCounterMode(display=False) as counter:
        logits = network(images)
        if workload is TRAINING:
            assert logits.shape == (2, 1000)
            assert INFERENCE.flops({"batch": 2}) == counter.get_total_flops()
        logits.sum().backward()
    assert workload.flops({"batch": 2}) == counter.get_total_flops()


@pytest.mark.usefixtures("small_images")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("implementation", INFERENCE.implementations_for("cpu"), ids=name_of)
def test_resnet50_inference_is_correct(implementation, dtype):
    assert check(INFERENCE, implementation, 1, dtype) <= INFERENCE.tolerance(dtype)


@pytest.mark.usefixtures("small_images")
def test_resnet50_inference_in_other_order_is_found_out():
    inputs = INFERENCE.make_inputs({"batch": 2}, "float32", seed=7)
    with torch.inference_mode():
        logits = INFERENCE.implementations[0].prepare(inputs)()
    assert wrongness(INFERENCE, inputs, logits) <= INFERENCE.tolerance("float32")
    assert wrongness(INFERENCE, inputs, logits.flip(0)) > 0.01
    assert math.isnan(wrongness(INFERENCE, inputs, logits * math.nan))


@pytest.mark.usefixtures("thin_network")
@pytest.mark.parametrize(("dtype", "flips"), [("float64", 1), ("float32", 10)])
def test_resnet50_training_step_is_correct(dtype, flips):
    """In float32 rounding flips single ReLUs, which weigh more among so few pixels."""
    workload = SmallTraining()
    error = check(workload, workload.implementations[0], 2, dtype)
    assert error <= flips * workload.tolerance(dtype)


@pytest.mark.parametrize("batch", [1, 6, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("implementation", CNN.implementations_for("cpu"), ids=name_of)
def test_cnn_training_step_is_correct(implementation, batch, dtype):
    assert check(CNN, implementation, batch, dtype) <= CNN.tolerance(dtype)


def test_a_wrong_step_is_found_out_and_one_in_another_layout_is_another():
    """Weights ordered unlike the images would be taken for others, and the check sees it."""
    channels_last, contiguous = CNN.implementations_for("cpu")
    inputs = CNN.make_inputs({"batch": 4}, "float32", seed=7)
    arranged = channels_last.arrange(inputs)
    change = contiguous.prepare(inputs)() - inputs[2]
    most = 100 * CNN.tolerance("float32")
    assert wrongness(CNN, arranged, arranged[2] + change) > most
    for factor in (0.0, -1.0, 0.99, math.nan):  # none, away from the minimum, a bit too small
        assert not wrongness(CNN, inputs, inputs[2] + factor * change) <= most


class Convolutions(TorchDispatchMode):
    """Whether cuDNN would search for its fastest algorithm, at each convolution."""

    def __init__(self):
        super().__init__()
        self.searching = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "conv" in func.__name__:
            searching = self.searching.setdefault(func.__name__, set())
            searching.add(torch.backends.cudnn.benchmark)
        return func(*args, **kwargs or {})


@pytest.mark.usefixtures("small_images")
@pytest.mark.parametrize("workload", [CNN, INFERENCE], ids=name_of)
def test_cudnn_searches_for_every_convolution_there_and_back(workload):
    for implementation in workload.implementations_for("cpu"):
        inputs = implementation.arrange(workload.make_inputs({"batch": 1}, "float32", seed=7))
        with torch.inference_mode(not workload.needs_gradients):
            call = implementation.prepare(inputs)
            with Convolutions() as convolutions:
                call()
        assert ("convolution_backward.default" in convolutions.searching) is (workload is CNN)
        assert set.union(*convolutions.searching.values()) == {True}
        assert not torch.backends.cudnn.benchmark


def test_step_leaves_its_inputs_and_goes_on_learning():
    inputs = CNN.make_inputs({"batch": 8}, "float32", seed=7)
    before = [tensor.clone() for tensor in inputs]
    call = CNN.implementations[0].prepare(inputs)

    def loss():
        weights = training.views(call(), CNN.shapes, channels_last=False)
        network = CNN.network(weights)
        with torch.no_grad():
            return F.cross_entropy(network(inputs[0]), inputs[1]).item()

    losses = [loss() for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert all(torch.equal(*pair) for pair in zip(before, inputs, strict=True))
    assert CNN.needs_gradients
    assert not CNN.repeatable


def test_reference_agrees_with_finite_differences():
    """Of the loss along a random direction, at the starting weights."""
    inputs = CNN.make_inputs({"batch": 4}, "float64", seed=7)
    images, labels, weights = inputs
    change = weights - CNN.implementations[0].prepare(inputs)()
    direction = torch.randn(weights.shape, dtype=torch.float64, generator=torch.manual_seed(1))

    def loss(step):
        shifted = weights + step * direction
        layers = training.views(shifted, CNN.shapes, channels_last=False)
        network = CNN.network(layers)
        return F.cross_entropy(network(images), labels).item()

    slope = (loss(1e-7) - loss(-1e-7)) / 2e-7
    assert slope == pytest.approx((change @ direction).item() / training.LEARNING_RATE, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_batches_hold_few_images_each_with_its_label_and_weights_in_float32(dtype):
    images, labels, weights = CNN.make_inputs({"batch": 20}, dtype, seed=7)
    assert labels.tolist() == sorted(5 * [0, 1, 2, 3])
    assert torch.equal(images[0], images[4])
    assert not torch.equal(images[0], images[5])
    assert (images.dtype, weights.dtype) == (getattr(torch, dtype), torch.float32)


def test_a_row_says_how_many_images_a_second():
    bench = bench_here(RowLimits(samples=10, max_seconds=0.05))
    row = Row(CNN, {"batch": 3}, "float32").measure(bench)
    assert row.items == 3
    samples = {"samples_seconds": (0.5, 0.5), "status": MeasurementStatus.MEASURED}
    assert "median 500 ms (6 images/s), middle half" in describe(row.model_copy(update=samples))
    assert INFERENCE.items({"batch": 4}) == TRAINING.items({"batch": 4}) == 4
    assert WORKLOADS["sort"].items({"size": 9}) is None


def test_memory_needs_are_upper_bounds_and_bytes_leave_activations_out():
    for workload in (CNN, INFERENCE, TRAINING):
        for implementation in workload.implementations:
            for dtype in implementation.dtypes:
                needed = implementation.working_set_bytes({"batch": 8}, dtype)
                inputs = workload.input_bytes({"batch": 8}, dtype)
                assert needed > inputs + workload.output_bytes({"batch": 8}, dtype)
    # In training as in inference: images, and weights and momentum read and written.
    assert CNN.bytes_moved({"batch": 1}, "float32") == 3 * 32 * 32 * 4 + 8 + 4 * 4 * 113_738
    assert INFERENCE.bytes_moved({"batch": 1}, "float32") == 4 * (
        3 * 224 * 224 + 25_557_032 + 2 * 26_560 + 1000
    )


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_replays_of_a_captured_step_train_like_the_step_itself(dtype):
    """The steps of the warm-up are undone, momentum included."""
    inputs = CNN.make_inputs({"batch": 1}, dtype, seed=5)
    weights = []
    for step in (SgdStep(CNN), GraphedSgdStep(SgdStep(CNN))):
        on_device = tuple(tensor.cuda() for tensor in step.arrange(inputs))
        with measuring_state(CNN, dtype):
            call = step.prepare(on_device)
            weights.append([call().cpu().clone() for _ in range(3)])
    for plain, captured in zip(*weights, strict=True):
        assert torch.allclose(plain, captured, rtol=1e-3, atol=1e-5)
    assert not torch.equal(weights[0][0], weights[0][2])


@pytest.mark.parametrize("name", ["cnn_training_step", "resnet50_inference"])
def test_networks_can_be_compiled_as_one_graph(monkeypatch, small_images, name):
    """Traced for real; fusing them takes a GPU."""
    real = torch.compile
    asked = []

    def traced(network, **options):
        asked.append(options)
        return real(network, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", traced)
    workload = WORKLOADS[name]
    implementation = next(each for each in workload.implementations if "compiled" in each.name)
    inputs = implementation.arrange(workload.make_inputs({"batch": 1}, "float32", seed=5))
    with measuring_state(workload, "float32"):
        output = implementation.prepare(inputs)()
    assert asked == [{"fullgraph": True, "dynamic": False}]
    assert wrongness(workload, inputs, output) <= workload.tolerance("float32")


def test_float16_is_for_tensor_cores_and_compiling_for_long_rows_on_cuda_alone(monkeypatch):
    step = SgdStep(CNN)
    refused = "training in float16 requires tensor cores; measure bfloat16 on the CPU instead"
    assert [step.refusal(device, "float16") for device in ("cpu", "cuda")] == [refused, None]
    monkeypatch.setattr(triton_filters, "missing", lambda: None)
    step = CompiledSgdStep(CNN)
    assert step.refusal("cpu", "float32") == "torch channels-last, compiled does not run on cpu"
    assert step.refusal("cuda", "float32") is None
    monkeypatch.setattr(triton_filters, "missing", lambda: "no compiler")
    assert step.refusal("cuda", "float32") == "no compiler"
    for seconds, refused in ((0.3, True), (10.0, False)):
        problem = Problem(CNN, {"batch": 1}, "float32", "cuda", row_seconds=seconds)
        monkeypatch.setattr(CompiledSgdStep, "refusal", lambda *_: None)
        monkeypatch.setattr(memory, "shortage", lambda *_: None)
        reasons = {each.name: each.reason for each in find_candidates(problem, (1,))}
        assert (reasons[step.name] is not None) == refused
    assert step.least_row_seconds == RowLimits().max_seconds


STEP = WORKLOADS["cnn_training_step"]


def records(count, highest_label=9):
    rng = np.random.default_rng(0)
    labels = np.arange(count) % (highest_label + 1)
    pixels = rng.integers(0, 256, (count, cifar10.RECORD_BYTES - 1))
    return np.column_stack([labels, pixels]).astype(np.uint8).tobytes()


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_a_batch_holds_images_with_their_labels_and_a_step_on_them_is_right(
    tmp_path, monkeypatch, kind
):
    content, place = records(20), tmp_path
    if kind == "folder":
        (tmp_path / cifar10.FILE).write_bytes(content)
    else:
        place = tmp_path / "cifar-10-binary.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{cifar10.FILE}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setenv(cifar10.VARIABLE, str(place))
    batch, labels, _ = STEP.make_inputs({"batch": 16}, "float32", 0)
    assert batch.shape == (16, 3, 32, 32)
    assert labels.tolist() == [label for label in range(8) for _ in range(2)]
    first = np.frombuffer(records(1), np.uint8)[1:].reshape(3, 32, 32)
    assert torch.equal(batch[1], torch.from_numpy((first.astype(np.float32) - 127.5) / 64))
    inputs = STEP.make_inputs({"batch": 4}, "float32", 0)
    output = STEP.implementations[0].prepare(inputs)()
    assert wrongness(STEP, inputs, output) < STEP.tolerance("float32")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"short", "does not contain CIFAR-10 records"),
        (records(20, highest_label=12), "does not contain CIFAR-10 records"),
    ],
)
def test_what_is_no_archive_is_named(tmp_path, monkeypatch, content, message):
    if content is not None:
        (tmp_path / cifar10.FILE).write_bytes(content)
    monkeypatch.setenv(cifar10.VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=message):
        cifar10.images_and_labels(15)
    monkeypatch.delenv(cifar10.VARIABLE)
    assert cifar10.images_and_labels(2) is None, "without a name images are random"
