import subprocess
import sys
from pathlib import Path

import pytest

from batchmark_job.exceptions import InputError
from batchmark_job.suites import SUITES, Grid, Limits, find_suite
from batchmark_job.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[3]


def sizes(suite: str, workload: str) -> list[tuple[int, ...]]:
    return [
        tuple(point.parameters.values())
        for point in SUITES[suite].points()
        if point.workload == workload
    ]


def test_suites_are_found_by_name() -> None:
    assert list(SUITES) == ["smoke", "blog", "sam"]
    assert find_suite("smoke") is SUITES["smoke"]
    with pytest.raises(InputError, match=r"unknown suite 'nope'; known: smoke, blog, sam"):
        find_suite("nope")


@pytest.mark.parametrize("name", SUITES)
def test_points_are_valid_and_unique(name: str) -> None:
    points = SUITES[name].points()
    keys = [(point.workload, *point.parameters.items()) for point in points]
    assert points
    assert len(set(keys)) == len(keys)


def test_smoke_shows_a_trend_in_every_workload() -> None:
    for workload in WORKLOADS:
        assert len({parameters[0] for parameters in sizes("smoke", workload)}) >= 3


def test_blog_is_the_published_grid() -> None:
    assert sizes("blog", "matmul") == [(1000,), (5000,), (8000,), (10000,)]
    assert sizes("blog", "image_convolution") == [(2048, 1), (2048, 2), (4096, 1), (4096, 2)]
    assert sizes("blog", "gaussian_blur") == [(2048, 1)]


def test_sam_unites_both_published_grids() -> None:
    matmul = {size for (size,) in sizes("sam", "matmul")}
    assert matmul >= {1000, 5000, 10000, 15000}
    images = set(sizes("sam", "image_convolution"))
    gpu_grid = {(size, batch) for size in (4096, 8192) for batch in (1, 4, 8)}
    cpu_grid = {(size, batch) for size in (2048, 4096) for batch in (1, 2, 4)}
    assert images >= gpu_grid | cpu_grid
    for filter_name in ("gaussian_blur", "edge_detection"):
        assert {size for size, _ in sizes("sam", filter_name)} == {2048, 4096, 8192}


def test_grid_multiplies_its_axes_and_fills_in_defaults() -> None:
    points = Grid("image_convolution", {"batch": (1, 2), "size": (64, 32)}).points()
    assert [dict(point.parameters) for point in points] == [
        {"size": size, "batch": batch} for size in (64, 32) for batch in (1, 2)
    ]
    (point,) = Grid("gaussian_blur", {"size": (64,)}).points()
    assert point.parameters == {"size": 64, "batch": 1}


@pytest.mark.parametrize(
    ("workload", "axes", "message"),
    [
        ("nope", {}, "unknown workload 'nope'; known: matmul"),
        ("matmul", {"batch": (1,)}, "matmul has no axis 'batch'; it has size"),
        ("matmul", {}, "matmul needs its axis 'size'"),
        ("matmul", {"size": (0,)}, "matmul can't have size=0; give 1 to"),
        ("gaussian_blur", {"size": (7,)}, "gaussian_blur can't have size=7; give 8 to"),
        ("image_convolution", {"size": (64,), "batch": (0,)}, "can't have batch=0"),
    ],
)
def test_bad_grids_are_refused(
    workload: str, axes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Grid(workload, axes).points()


def test_limits_stop_sampling() -> None:
    limits = Limits(samples=10, max_seconds=1.0, minimum_samples=3)
    assert not limits.reached(9, 0.9)
    assert limits.reached(10, 0.0)
    assert limits.reached(3, 1.0)
    assert not limits.reached(2, 100.0)


@pytest.mark.parametrize("max_seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_time_limits_are_refused(max_seconds: float) -> None:
    with pytest.raises(InputError, match="--max-seconds"):
        Limits(max_seconds=max_seconds)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(InputError, match="--samples 2 is too few; give 6 or more"):
        Limits(samples=2)


def test_grids_are_known_without_torch() -> None:
    code = (
        "import sys; from batchmark_job.suites import SUITES\n"
        "assert all(suite.points() for suite in SUITES.values())\n"
        "assert not {'torch', 'cv2', 'boto3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "job_container", check=True)
