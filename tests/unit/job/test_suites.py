import math

import pytest

from batchmark_job.errors import InputError
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.suites import SUITES, Grid
from batchmark_job.workloads.builtin import WORKLOADS


def sizes(suite, workload):
    return [
        tuple(point.parameters.values())
        for point in SUITES[suite].points()
        if point.workload == workload
    ]


@pytest.mark.parametrize("name", SUITES)
def test_points_are_valid_and_unique(name):
    points = SUITES[name].points()
    keys = [(point.workload, *point.named_parameters.items(), point.dtype) for point in points]
    assert points
    assert len(set(keys)) == len(keys)


def test_sizes_suffice_for_a_trend_of_all_but_the_slowest_and_for_a_crossover():
    for workload in WORKLOADS.keys() - {"resnet50_inference", "resnet50_training"}:
        few = {parameters[0] for parameters in sizes("smoke", workload)}
        assert len(few) >= 2, f"give {workload} two sizes in the suite smoke, not {few}"
    assert not sizes("smoke", "resnet50_training")
    for suite in ("building_blocks", "training"):
        for workload in {point.workload for point in SUITES[suite].points()}:
            assert len(sizes(suite, workload)) >= 4, "for a crossover"


def test_the_published_grids_are_united_in_sam_and_float32_alone():
    for suite in ("blog", "sam"):
        assert {point.dtype for point in SUITES[suite].points()} == {"float32"}
        assert {point.dtype for point in SUITES[suite].points(["tf32"])} == {"tf32"}
    matmul = {size for (size,) in sizes("sam", "matmul")}
    assert matmul >= {1000, 5000, 10000, 15000}
    images = set(sizes("sam", "image_convolution"))
    gpu_grid = {(size, batch) for size in (4096, 8192) for batch in (1, 4, 8)}
    cpu_grid = {(size, batch) for size in (2048, 4096) for batch in (1, 2, 4)}
    assert images >= gpu_grid | cpu_grid
    for filter_name in ("gaussian_blur", "edge_detection"):
        assert {size for size, _ in sizes("sam", filter_name)} == {2048, 4096, 8192}


def test_grid_multiplies_its_axes_and_fills_in_defaults():
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
        ("matmul", {"batch": (1,)}, "matmul has no axis 'batch'; known: size"),
        ("matmul", {}, "matmul requires the axis 'size'"),
        *(
            ("matmul", {"size": (n,)}, f"matmul does not support size={n}; use 1 to")
            for n in (0, 10**17)
        ),
        ("gaussian_blur", {"size": (7,)}, "gaussian_blur does not support size=7; use 8 to"),
        ("image_convolution", {"size": (64,), "batch": (0,)}, "does not support batch=0"),
    ],
)
def test_bad_grids_are_refused(workload, axes, message):
    with pytest.raises(InputError, match=message):
        Grid(workload, axes).points()


NO_FRACTION = r"--precision .* is not a fraction between 0 and 1; use 0.01 for 1 %"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        *(({"max_seconds": bad}, "--max-seconds") for bad in (0.0, -1.0, math.nan, math.inf)),
        *(({"precision": bad}, NO_FRACTION) for bad in (-0.01, 1.0, math.nan)),
        ({"samples": 2}, "--samples 2 is too few; use 10 or more"),
    ],
)
def test_bad_limits_are_refused(limits, message):
    with pytest.raises(InputError, match=message):
        RowLimits(**limits)
