"""Names of suites, number formats and tasks; the job container defines the suites themselves."""

from collections.abc import Iterable
from typing import NamedTuple

# With the trigger form's text for each.
SUITES = {
    "smoke": "small sizes of everything; a job takes about a minute, up to two on a busy machine",
    "blog": "matmul, convolutions and filters at a published comparison's sizes; minutes per job",
    "sam": "the blog suite at more sizes, including large ones for GPUs; slow on a CPU",
    "precision": "matrix products and convolutions in every precision",
    "building_blocks": "FFT, sort, sum and attention, from small to large",
    "training": "training steps of a CNN and of ResNet-50, and ResNet-50's inference",
    "sharing": "throughput, fairness and memory of tasks that share one device",
    "scaling": "ResNet-50 training across several nodes, with its all-reduces and file reads",
    "own": "your own workloads",
}
DTYPES = ("float32", "float64", "tf32", "float16", "bfloat16")
OWN_JOB = "job-"  # before the name of a user's own job: its suite
NO_DTYPE = "none"  # of the rows of users' own jobs: nobody knows what they compute in
CUSTOM = "custom"  # the suite of documents whose workload and axes were given by hand
OWN_DTYPES = "suite"  # each row has the number format that the suite gives it
MAX_REPEATS = 20

SCALING = "scaling"  # several nodes measure together
SHARING = "sharing"


def suite_name(suite: str) -> str:
    """Return a suite's display name."""
    return f"job {suite.removeprefix(OWN_JOB)}" if is_own_job(suite) else f"suite {suite}"


def suite_names(suites: Iterable[str]) -> str:
    """List the suites' display names without duplicates."""
    return ", ".join(dict.fromkeys(map(suite_name, suites)))


def is_own_job(suite: str) -> bool:
    """Whether the suite belongs to a user's own job, i.e. one not written for Batchmark."""
    return suite.startswith(OWN_JOB)


class Axis(NamedTuple):
    """A size parameter of a task: its bounds, and whether it is optional."""

    least: int
    most: int
    is_optional: bool = False


_PIXELS, _BATCH = 65_536, Axis(1, 65_536)
_IMAGES = Axis(1, 65_536, is_optional=True)
_HEADS = Axis(1, 1_024, is_optional=True)
_ATTENTION = {
    "sequence": Axis(1, 1_048_576),
    "heads": _HEADS,
    "head_dim": _HEADS,
    "batch": _IMAGES,
}
# The workloads that several replicas can run at once, by name, with their axes.
TASKS = {
    "cnn_training_step": {"batch": _BATCH},
    "resnet50_training": {"batch": _BATCH},
    "resnet50_inference": {"batch": _BATCH},
    "matmul": {"size": Axis(1, 200_000)},
    "image_convolution": {"size": Axis(2, _PIXELS), "batch": _IMAGES},
    "gaussian_blur": {"size": Axis(8, _PIXELS), "batch": _IMAGES},
    "edge_detection": {"size": Axis(2, _PIXELS), "batch": _IMAGES},
    "fft": {"size": Axis(2, _PIXELS), "batch": _IMAGES},
    "sort": {"size": Axis(1, 10**11)},
    "reduction": {"size": Axis(1, 10**11)},
    "attention_forward": _ATTENTION,
    "attention_backward": _ATTENTION,
}
OWN_TASK = "own:"  # before the name of one of the user's own workloads
