"""Which changes are made of many points, what they name as causes, and what they cost."""

import pytest

from batchmark.changes.attribution import group_changes, runs_around
from batchmark.changes.conditions import row_name, run_conditions
from batchmark.core.version import Version
from tests.builders.changed_series import (
    build_conditions,
    build_confirmation,
    build_key,
    build_own_key,
    build_point,
    moment,
    run_id,
    runs_of,
    sizes,
)

NEW_IMAGE = ("sha256:" + "bb" * 32,)
GPU, CPU = "g5.xlarge", "c5.2xlarge"
SPOT = {"purchase_option": ("spot",)}
RATE = build_own_key(better="higher", metric="throughput", size=1, unit="images/s")


def changes_of(*points, runs=None, measured=None, **fields):
    runs = runs_of(GPU, CPU) if runs is None else runs
    measured = [point.series for point in points] if measured is None else measured
    return group_changes(points, runs, measured=measured, **fields)


def workloads(count, target=GPU):
    return [build_key(target, f"workload {number}") for number in range(count)]


def build_history_row(key, number, **fields):
    return {
        "run_id": run_id(number),
        "target": key.target,
        "recorded_at": moment(number).replace(tzinfo=None),  # as Parquet gives it
        "workload": key.workload,
        "parameters": key.parameters,
        "dtype": key.dtype,
    } | fields


def runs_with(before, after):
    """A run with `after`, after one with `before`."""
    return {
        (run_id(19), GPU): build_conditions(19, **before),
        (run_id(20), GPU): build_conditions(20, **after),
    }


def causes_of(before, after, row=None):
    (change,) = changes_of(build_point(row or build_key()), runs=runs_with(before, after))
    return change.causes


def test_one_point_is_one_change_that_names_nothing_that_is_unknown():
    point = build_point(build_key())
    (change,) = changes_of(point)
    assert (change.kind, change.points, change.environment) == ("slower", (point,), False)
    assert change.causes == change.confirmations == change.fell_back == ()
    # Unknown conditions are no cause, no version and no price.
    (change,) = changes_of(build_point(build_key()), runs={})
    assert change.causes == ()
    assert change.version_before == change.version == Version()
    assert change.usd_per_month is None
    assert change.usd_reason == "no cost for g5.xlarge: the history has no price for it"


def test_conditions_are_wanted_of_the_runs_about_each_point():
    points = [build_point(build_key(), run=20), build_point(build_key(CPU), run=30)]
    assert runs_around(points) == {f"run-{number}" for number in (19, 20, 21, 29, 30, 31)}


def test_image_and_driver_that_both_changed_are_both_named_image_first():
    runs = runs_of(GPU, image_digest=NEW_IMAGE, driver_version=("590.1",), kernel=("6.12",))
    (change,) = changes_of(build_point(build_key()), runs=runs)
    assert [one.difference for one in change.causes] == [
        ("image digest", "sha256:" + "9a" * 32, NEW_IMAGE[0]),
        ("driver version", "580.95.05", "590.1"),
    ]
    assert all(one.run_id is None for one in change.causes)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({"driver_version": ()}, {"driver_version": ("580",)}, ["driver version"]),
        ({"ami_id": ()}, {"ami_id": ("ami-1",)}, []),  # not recorded before
        (
            {"gpu_application_clock_hz": (1.71e9,), "gpu_daemons": ("none",)},
            {"gpu_application_clock_hz": (1.695e9,), "gpu_daemons": ("DCGM, MPS",)},
            ["GPU application clock", "GPU daemons of the host"],
        ),
        ({"root_volume": ("gp3 a",)}, {"root_volume": ("gp3 b",)}, ["root volume"]),
        ({"implementation": {}}, {"implementation": {"x": ("torch 2",)}}, []),  # of another row
        ({}, {"purchase_option": ("spot",)}, ["purchase option"]),
        ({}, {"price_usd_per_hour": (1.2,)}, ["price"]),
        # A Spot price moves by itself.
        (SPOT | {"price_usd_per_hour": (0.59,)}, SPOT | {"price_usd_per_hour": (0.6,)}, []),
    ],
)
def test_what_differs_is_what_is_known_of_both_runs(before, after, named):
    assert [cause.name for cause in causes_of(before, after)] == named


def test_what_jobs_of_a_run_disagree_in_is_joined_and_clocks_are_in_megahertz():
    (cause,) = causes_of({"ami_id": ("ami-1",)}, {"ami_id": ("ami-1", "ami-2")})
    assert (cause.before, cause.after) == ("ami-1", "ami-1, ami-2")
    clock = "gpu_application_clock_hz"
    (cause,) = causes_of({clock: (1.711e9,)}, {clock: (1.71e9,)})
    assert (cause.before, cause.after) == ("1711 MHz", "1710 MHz")


def test_versions_before_and_after_a_change_are_kept_and_the_commit_is_a_cause():
    runs = runs_with({"commit": ("8ab0c11",)}, {"commit": ("3f2a91c",), "branch": ("main",)})
    digest = "sha256:" + "9a" * 32
    (change,) = changes_of(build_point(build_key()), runs=runs)
    assert change.version_before == Version(commit="8ab0c11", image_digest=digest)
    assert change.version == Version(commit="3f2a91c", branch="main", image_digest=digest)
    assert [cause.difference for cause in change.causes] == [("commit", "8ab0c11", "3f2a91c")]
    (dearer,) = changes_of(build_point(build_key(), metric="price"), runs=runs)
    assert (dearer.version_before, dearer.version, dearer.causes) == (Version(), Version(), ())


def test_a_cause_one_run_off_is_named_with_its_run_though_each_run_has_its_commit():
    runs = runs_of(GPU, since=19, image_digest=NEW_IMAGE)
    point = build_point(build_key(), run=20, near_run_ids=("run-18", "run-19"))
    (change,) = changes_of(point, runs=runs)
    assert [(cause.name, cause.run_id) for cause in change.causes] == [("image digest", "run-19")]
    runs = {
        (run_id(number), GPU): build_conditions(
            number, commit=(f"c{number}",), driver_version=("590.1" if number >= 21 else "580.95",)
        )
        for number in range(18, 23)
    }
    (change,) = changes_of(build_point(build_key()), runs=runs)
    assert [(cause.name, cause.after, cause.run_id) for cause in change.causes] == [
        ("commit", "c20", None),
        ("driver version", "590.1", "run-21"),
    ]


@pytest.mark.parametrize(
    ("versions", "threads", "told"),
    [
        (("4.10", "4.12"), (8, 8), [("implementation", "opencv 4.10", "opencv 4.12")]),
        (("4.12", "4.12"), (2, 1), []),  # a job chooses its number of threads
    ],
)
def test_rows_of_another_implementation_are_told_by_row(versions, threads, told):
    keys = sizes(CPU, "blur", 2)
    runs = {}
    for number, version, count in zip((19, 20), versions, threads, strict=True):
        opencv = {"name": "opencv", "version": version, "threads": count}
        code = {f"implementation_{name}": value for name, value in opencv.items()}
        runs |= run_conditions([build_history_row(key, number, **code) for key in keys])
    (change,) = changes_of(*map(build_point, keys), runs=runs)
    assert [cause.difference for cause in change.causes] == told


def test_a_workloads_sizes_belong_together_and_workloads_do_not():
    blur, matmul = sizes(CPU, "blur", 2), sizes(CPU, "matmul", 8)
    changes = changes_of(
        *(build_point(key, 0.1 * (n + 1)) for n, key in enumerate(blur)),
        build_point(matmul[0], 0.05),
        measured=[*blur, *matmul],
    )
    told = [[point.series.parameters for point in change.points] for change in changes]
    assert told == [['{"size":2000}', '{"size":1000}'], ['{"size":1000}']]
    assert not any(change.environment for change in changes)


@pytest.mark.parametrize(
    ("moved", "of", "environment"), [(3, 6, True), (3, 7, False), (2, 2, False)]
)
def test_half_of_the_rows_and_three_at_least_blame_the_environment(moved, of, environment):
    keys = workloads(of)
    changes = changes_of(*map(build_point, keys[:moved]), measured=keys)
    assert [change.environment for change in changes] == (
        [True] if environment else [False] * moved
    )


def test_a_row_on_two_cpu_models_counts_once():
    keys = [
        build_key(workload=f"workload {n}", cpu_model=model) for n in range(2) for model in "ab"
    ]
    changes = changes_of(*map(build_point, keys))
    assert not any(change.environment for change in changes)


def test_points_at_near_runs_are_one_change_and_distant_ones_are_two():
    keys = workloads(6)
    first = [build_point(key, run=20) for key in keys[:3]]
    near = [build_point(key, run=21) for key in keys[3:]]
    (change,) = changes_of(*first, *near)
    assert len(change.points) == 6
    third = [build_point(build_key(workload="a seventh"), run=22)]
    (change,) = changes_of(*first, *near, *third)
    assert len(change.points) == 7
    later = [build_point(key, run=24) for key in keys[3:]]
    assert len(changes_of(*first, *later)) == 2


def test_what_moved_on_several_targets_for_one_cause_is_one_change():
    targets = (GPU, "g6.xlarge", CPU)
    points = [
        build_point(key, 0.1 + n / 100) for of in targets for n, key in enumerate(workloads(4, of))
    ]
    runs = runs_of(*targets, image_digest=NEW_IMAGE)
    (change,) = changes_of(*points, runs=runs)
    assert change.environment
    assert set(change.targets) == set(targets)
    assert [cause.name for cause in change.causes] == ["image digest"]
    assert change.points[0].change == pytest.approx(0.13)
    assert len(changes_of(*points, runs=runs_of(*targets))) == 3  # nothing in common but the run
    # One workload alone is no environment.
    targets = (CPU, "m5.2xlarge")
    others = [build_key(target, f"w{n}") for target in targets for n in range(9)]
    points = [build_point(build_key(target, "blur")) for target in targets]
    measured = [*others, *(point.series for point in points)]
    runs = runs_of(*targets, torch_version=("2.14.0",))
    (change,) = changes_of(*points, runs=runs, measured=measured)
    assert (change.environment, len(change.targets)) == (False, 2)


def test_targets_of_two_images_that_share_new_code_name_the_code_once():
    points = [build_point(key) for target in (GPU, CPU) for key in workloads(3, target)]
    runs = {
        **runs_of(GPU, image_digest=("sha256:gpu",), code_version=("0.2",)),
        **runs_of(CPU, image_digest=("sha256:cpu",), code_version=("0.2",)),
    }
    runs |= {
        (run_id(19), target): build_conditions(19, code_version=("0.1",)) for target in (GPU, CPU)
    }
    (change,) = changes_of(*points, runs=runs)
    assert [cause.name for cause in change.causes] == [
        "code version",
        "image digest of c5.2xlarge",
        "image digest of g5.xlarge",
    ]


def test_slower_faster_noisier_and_dearer_are_never_mixed():
    keys = workloads(8)
    price = build_key(workload=None)
    changes = changes_of(
        *(build_point(key, -0.1) for key in keys[:4]),
        *(build_point(key, 0.1) for key in keys[4:]),
        *(build_point(key, 1.5, metric="noise") for key in keys),
        build_point(price, 0.2, metric="price"),
        measured=keys,
    )
    assert [(change.kind, len(change.points)) for change in changes] == [
        ("slower", 4),
        ("dearer", 1),
        ("noisier", 8),
        ("faster", 4),
    ]


def test_a_price_is_each_targets_own_and_only_buying_explains_it():
    runs = runs_of(
        GPU, CPU, image_digest=NEW_IMAGE, purchase_option=("spot",), price_usd_per_hour=(1.2,)
    )
    points = [
        build_point(build_key(target, workload=None), 0.2, metric="price") for target in (GPU, CPU)
    ]
    changes = changes_of(*points, runs=runs, measured=[])
    assert [change.targets for change in changes] == [(CPU,), (GPU,)]
    for change in changes:
        assert [cause.name for cause in change.causes] == ["purchase option"]
        assert change.usd_per_month == pytest.approx(730 * 0.2)


def test_a_month_of_slower_work_costs_the_mean_change_at_the_price_after_it():
    keys = sizes(GPU, "matmul", 2)
    runs = runs_of(GPU, price_usd_per_hour=(1.0, 1.2, 1.4))
    points = [build_point(key, change) for key, change in zip(keys, (0.1, 0.3), strict=True)]
    (change,) = changes_of(*points, runs=runs)
    assert change.usd_per_month == pytest.approx(730 * 1.2 * 0.2)
    assert change.usd_per_hour == {GPU: 1.2}
    (saved,) = changes_of(build_point(keys[0], -0.25))
    assert saved.usd_per_month == pytest.approx(-730 * 1.006 * 0.25)


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (
            build_point(build_key(instance_type=None)),
            "no cost for g5.xlarge: it did not run on EC2",
        ),
        (build_point(build_key(), metric="noise"), "noise by itself costs nothing"),
        (
            build_point(build_key(against=CPU), -0.1, metric="speedup"),
            "a speedup involves two targets; see the costs of their times",
        ),
    ],
)
def test_dollars_that_are_unknown_say_why(point, reason):
    (change,) = changes_of(point)
    assert (change.usd_per_month, change.usd_reason) == (None, reason)


@pytest.mark.parametrize(
    ("target", "time", "speedup", "is_explained"),
    [
        (GPU, 0.1, -0.09, True),  # the GPU became slower
        (CPU, -0.1, -0.1, True),  # the CPU became faster
        (CPU, 0.1, 0.1, True),
        (GPU, -0.1, -0.09, False),  # the GPU became faster: that loses no speedup
        ("m5.2xlarge", -0.1, -0.1, False),  # of another pair
    ],
)
def test_a_speedup_is_explained_by_its_own_targets_times(target, time, speedup, is_explained):
    moved = build_point(build_key(target), time)
    ratio = build_point(build_key(GPU, against=CPU), speedup, run=21, metric="speedup")
    changes = changes_of(ratio, moved, measured=[build_key(GPU)])
    kept = next(change for change in changes if change.points == (moved,))
    assert kept.speedups == ((ratio,) if is_explained else ())
    assert len(changes) == (1 if is_explained else 2)


def test_an_unexplained_speedup_names_the_causes_of_both_its_targets():
    runs = {**runs_of(GPU), **runs_of(CPU, image_digest=NEW_IMAGE)}
    ratio = build_point(build_key(GPU, against=CPU), -0.1, metric="speedup")
    (change,) = changes_of(ratio, runs=runs)
    assert change.kind == "speedup lost"
    assert [cause.name for cause in change.causes] == ["image digest of c5.2xlarge"]


def test_a_verdict_goes_to_the_change_of_its_series_and_run():
    keys = sizes(GPU, "matmul", 2)
    mine = build_confirmation(keys[0])
    later = build_confirmation(keys[0], run_id="run-40")
    other = build_confirmation(keys[1])
    (change,) = changes_of(build_point(keys[0]), confirmations=[mine, later, other])
    assert change.confirmations == (mine,)


def test_a_gpu_target_that_ran_on_the_cpu_is_told_of():
    devices = {"requested_device": "cuda", "actual_device": "cpu"}
    rows = [build_history_row(build_key(), number, **devices) for number in (19, 20)]
    (change,) = changes_of(build_point(build_key()), runs=run_conditions(rows))
    assert change.fell_back == (GPU,)


def test_an_own_jobs_image_is_said_once():
    """Its digest and its implementation, which is the same image, tell nothing more."""
    row = build_key()
    before, after = (
        {
            "image": (f"registry.example/thumbnails:{tag}",),
            "image_digest": (f"sha256:{tag}",),
            "implementation": {row_name(row): (f"registry.example/thumbnails {tag}",)},
        }
        for tag in ("1.1", "1.2")
    )
    assert [(cause.name, cause.after) for cause in causes_of(before, after, row)] == [
        ("image", "registry.example/thumbnails:1.2")
    ]


def test_all_rows_of_an_own_job_are_one_workload_and_a_metric_has_no_part_in_the_dollars():
    rows = [*(build_own_key(size=size) for size in (1, 2, 3)), RATE]
    (change,) = changes_of(*map(build_point, rows), measured=rows)
    assert not change.environment
    assert len(change.points) == 4
    (change,) = changes_of(build_point(rows[0], 0.1), build_point(RATE, 0.5))
    assert change.usd_per_month == pytest.approx(730 * 1.006 * 0.1)
    (alone,) = changes_of(build_point(RATE, 0.5))
    assert (alone.usd_per_month, alone.usd_reason) == (None, "the cost of a metric is unknown")
