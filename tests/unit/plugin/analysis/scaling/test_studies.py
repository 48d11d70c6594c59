"""A run's scaling studies: curves, splits, prices, network and files, and what is missing."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.side_by_side import Chosen, side_by_side
from tests.builders.runs import (
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    PRICES,
    build_job,
    build_lost,
    build_row,
    build_run,
)
from tests.builders.scaling_runs import (
    SETTINGS,
    Cluster,
    job_of,
    otherwise,
    plan,
    scaling_job,
    sweep,
    unscaled_row,
)
from tests.builders.studies import scaling_study, training_of

GPU = "g5.xlarge"  # at 1.006 USD an hour
PRICE = 1.006
NUMBERS = (1, 2, 4, 8)


def at(training, nodes):
    (point,) = [one for one in training.points if one.nodes == nodes]
    return point


def test_a_point_has_speed_for_each_device_and_what_all_nodes_cost():
    cluster = Cluster(devices=8)
    point = at(training_of(*sweep(cluster, NUMBERS)), 4)
    seconds = cluster.step(4)
    assert point.seconds.value == pytest.approx(seconds)
    assert point.seconds.interval.low < seconds < point.seconds.interval.high
    assert (point.ranks, point.images, point.jobs, point.samples) == (32, 2048, 1, 30)
    assert point.images_per_second.value == pytest.approx(2048 / seconds)
    assert point.images_per_second_per_device.value == pytest.approx(64 / seconds)
    per_image = 4 * PRICE / 3600 * seconds / 2048
    assert point.usd_per_million_images.value == pytest.approx(1e6 * per_image)
    assert point.usd_per_epoch.value == pytest.approx(SETTINGS.images_per_epoch * per_image)
    assert (point.gpu_busy_share, point.first_loss, point.last_loss) == (0.97, 7.0, 6.1)


def test_a_file_system_is_paid_for_by_trainings_that_read_it():
    def usd(data, hourly):
        run = build_run(job_of(Cluster().training(2, data=data)))
        found = compare(run, PRICES, file_system_usd_per_hour=hourly)
        (study,) = found.studies["scaling"]
        assert study.file_system_usd_per_hour == hourly
        return study.trainings[0].points[0].usd_per_epoch.value

    assert usd("files", 3.0) / usd("files", None) == pytest.approx((2 * PRICE + 3) / (2 * PRICE))
    assert usd("synthetic", 3.0) == usd("synthetic", None) == usd("files", None)


def test_weak_scaling_keeps_the_batch_of_a_device_and_strong_scaling_that_of_all():
    cluster = Cluster()
    training = training_of(*sweep(cluster, NUMBERS, strong=True))
    (weak,), (strong,) = training.weak, training.strong
    assert (weak.images, weak.base_nodes) == (64, 1)
    for point in weak.points[1:]:
        truth = cluster.efficiency(point.nodes)
        assert point.efficiency.value == pytest.approx(truth)
        assert point.efficiency.interval.low < truth < point.efficiency.interval.high
        assert point.speedup.value == pytest.approx(point.nodes * truth)
    assert [(point.nodes, point.batch) for point in strong.points] == [
        *((1, 64), (2, 32), (4, 16), (8, 8))
    ]
    for point in strong.points[1:]:
        speedup = cluster.step(1) / cluster.step(point.nodes, point.batch)
        assert point.speedup.value == pytest.approx(speedup)
        assert point.efficiency.value == pytest.approx(speedup / point.nodes)
    assert weak.points[0].efficiency.value == strong.points[0].efficiency.value == 1
    assert weak.points[0].efficiency.interval is None
    # Without one node, the fewest are what others are held against.
    (curve,) = training_of(*sweep(cluster, (2, 4, 8))).weak
    assert curve.base_nodes == 2
    assert curve.point(8).efficiency.value == pytest.approx(cluster.efficiency(8, of=2))


def test_repeats_are_pooled_and_their_disagreement_widens_the_interval():
    def width(*levels):
        jobs = [
            job_of(Cluster(compute=0.16 * level).training(nodes), repeat=repeat)
            for nodes in (1, 2)
            for repeat, level in enumerate(levels, start=1)
        ]
        point = training_of(*jobs).weak[0].point(2)
        assert point.efficiency.value == pytest.approx(1, abs=0.02)
        return point.efficiency.interval.high - point.efficiency.interval.low

    assert width(0.9, 1.0, 1.1) > 3 * width(1.0, 1.0, 1.0)


def test_trainings_that_differ_in_more_than_nodes_and_batch_are_apart():
    cluster = Cluster()
    jobs = [
        job_of(
            cluster.training(nodes),
            cluster.training(nodes, data="files"),
            cluster.training(nodes, dtype="float32"),
            cluster.training(nodes, own={"learning_rate": 0.4}),
        )
        for nodes in (1, 2)
    ]
    found = scaling_study(*jobs).trainings
    assert [len(training.points) for training in found] == [2] * 4
    assert [training.parameters["data"] for training in found].count("files") == 1
    assert [training.dtype for training in found].count("float32") == 1
    assert [training.parameters.get("learning_rate") for training in found].count(0.4) == 1


def test_a_step_splits_into_parts_with_shares_of_their_sum():
    cluster = Cluster(data=0.04, hidden=0.0)
    split = at(training_of(*sweep(cluster, NUMBERS)), 4).split
    assert split.data_seconds == 0.04
    assert split.communication_seconds == pytest.approx(cluster.exposed(4))
    assert sum(split.shares.values()) == pytest.approx(1)
    assert split.shares["data"] == pytest.approx(0.04 / cluster.step(4))


def test_bus_bandwidth_is_what_each_link_carries_and_a_rank_alone_has_nothing_to_reduce():
    cluster = Cluster(latency=0.0, devices=2)
    points = scaling_study(*sweep(cluster, NUMBERS)).all_reduces
    assert [(one.nodes, one.size_bytes // 2**20) for one in points] == [
        (nodes, mib) for nodes in NUMBERS for mib in (1, 16, 64, 256)
    ]
    for point in points:
        assert point.bus_bytes_per_second.value == pytest.approx(1.2e9)
    # A rank alone has nothing to reduce, and that is no gap.
    alone = unscaled_row(1, "nothing to reduce", workload="all_reduce", status="skipped", mib=1)
    study = scaling_study(job_of(Cluster().training(1), alone))
    assert (study.all_reduces, study.unmeasured) == ((), ())
    two = unscaled_row(2, "out of memory", workload="all_reduce", mib=1)
    (gap,) = scaling_study(job_of(two)).unmeasured
    assert gap.reason == "failed: out of memory"


def test_files_are_read_cold_once_and_warm():
    cluster = Cluster()
    rows = (cluster.reading(2, "cold", 1e8), cluster.reading(2, "warm", 1e9))
    cold, warm = scaling_study(job_of(*rows)).readings
    assert (cold.kind, warm.kind) == ("cold", "warm")
    assert cold.bytes_per_second.value == pytest.approx(2e8)
    assert cold.bytes_per_second.interval is None
    assert warm.bytes_per_second.value == pytest.approx(2e9)
    assert warm.bytes_per_second.interval


def test_what_failed_or_was_lost_is_told_with_its_reason():
    cluster = Cluster()
    failed = unscaled_row(2, "out of memory", batch=64, image=224, data="synthetic")
    lost = build_lost(GPU, "node 3 (10.0.0.13) fell silent.\nmore", suite="scaling")
    own = {"scaling": plan(4, variant=1), "dtype": "bfloat16"}
    lost = lost.model_copy(update={"planned": lost.planned.model_copy(update=own)})
    study = scaling_study(job_of(cluster.training(1)), job_of(failed), lost=[lost])
    row, job = study.unmeasured
    assert row.name.startswith("resnet50_data_parallel nodes 2, devices 1, batch 64")
    assert row.reason == "failed: out of memory"
    assert job.name == "4 nodes, repeat 1, variant 1"
    assert job.reason == "its job left no result: node 3 (10.0.0.13) fell silent"
    assert study.trainings[0].reach.verdict == "not_known"


def test_jobs_in_different_environments_or_without_any_result_are_refused():
    other = GPU_ENVIRONMENT.model_copy(update={"gpu_model": "NVIDIA L4"})
    one, two = sweep(Cluster(), (1,))[0], sweep(Cluster(), (2,), environment=other)[0]
    study = scaling_study(one, two)
    assert "ran in different environments" in study.refused
    assert (study.trainings, study.all_reduces) == ((), ())
    lost = build_lost(GPU, "no capacity", suite="scaling")
    study = scaling_study(lost=[lost])
    assert study.refused == f"{GPU} has no result: no capacity"


def test_nodes_outside_ec2_on_loopback_or_not_alike_are_told():
    training = training_of(*sweep(Cluster(), (1, 2), environment=LAPTOP_ENVIRONMENT))
    assert training.points[0].usd_per_epoch is None
    row = otherwise(Cluster().training(2), {"host": "127.0.0.2"}, {"host": "127.0.0.3"})
    assert scaling_study(job_of(row)).loopback
    assert not scaling_study(*sweep(Cluster(), (2,))).loopback
    row = otherwise(Cluster().training(2), {}, {"device_model": "NVIDIA T4"})
    training = training_of(job_of(row))
    assert training.points[0].remarks == (
        "its nodes have different devices: NVIDIA A10G and NVIDIA T4",
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"items": 65}, "a step has 65 images instead of 2 x 1 x 64"),
        ({"scaling": None}, "its parameters specify 2 x 1 devices, but its nodes reported []"),
        (
            {"scaling": Cluster(devices=8).scaling(2)},
            "its parameters specify 2 x 1 devices, but its nodes reported [8, 8]",
        ),
    ],
)
def test_a_row_that_contradicts_its_parameters_is_no_point(changes, reason):
    row = Cluster().training(2).model_copy(update=changes)
    (found,) = scaling_study(job_of(row)).unmeasured
    assert found.reason == reason


@pytest.mark.parametrize("value", [0, -1, 2**60, 1.5, "two"])
def test_parameters_that_count_nothing_are_of_no_study(value):
    row = Cluster().training(2)
    row = row.model_copy(update={"parameters": row.parameters | {"nodes": value}})
    assert scaling_study(scaling_job(GPU, 2, [row])).trainings == ()


# Beside ordinary rows


def ordinary():
    return [
        build_job(target, [build_row((level,) * 8)])
        for target, level in ((GPU, 0.5), ("c5.2xlarge", 1))
    ]


def test_nodes_are_no_side_of_a_pair_and_leave_the_others_as_they_are():
    on_cpus = sweep(Cluster(), (1, 2), target="c5.2xlarge", all_reduce=False)
    mixed = compare(build_run(*ordinary(), *sweep(Cluster(), NUMBERS), *on_cpus), PRICES)
    alone = compare(build_run(*ordinary()), PRICES)
    assert mixed.pairs == alone.pairs
    assert mixed.notices == alone.notices == ()
    assert [study.target.target for study in mixed.studies["scaling"]] == ["c5.2xlarge", GPU]
    assert mixed.prices.on_demand.keys() == {GPU, "c5.2xlarge"}
    assert alone.studies == {}


def test_side_by_side_all_nodes_of_a_row_are_paid_for_and_it_has_no_ceiling():
    def chosen(run_id):
        run = build_run(job_of(Cluster().training(4)))
        return Chosen(run.model_copy(update={"run_id": run_id}), GPU, PRICES)

    ((row,),) = (one.rows for one in side_by_side(chosen("run-1"), chosen("run-2")))
    usd = 4 * PRICE / 3600 * Cluster().step(4)
    assert row.gpu_usd_per_million_calls.value == pytest.approx(1e6 * usd)
    assert row.gpu.roofline is None
    assert row.calls_until_gpu_pays is None
