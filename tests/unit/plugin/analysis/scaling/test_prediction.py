"""How far a training scales, what limits it, and what more nodes would do."""

import numpy as np
import pytest

from batchmark.analysis.scaling.curves import Measured, curves_of
from batchmark.analysis.scaling.prediction import _rate
from batchmark.analysis.scaling.step_model import fit_ring, load
from batchmark.core.intervals import Median
from tests.builders.noise import quick_and_long
from tests.builders.scaling_runs import Cluster, job_of, otherwise, sweep
from tests.builders.studies import training_of

NUMBERS = (1, 2, 4, 8)


def prediction_of(*jobs):
    return training_of(*jobs).prediction


def holds(estimate, truth):
    return estimate.interval.low <= truth <= estimate.interval.high


def measured(cluster, nodes, seed, seed_of_exchanges):
    exchanges = cluster.all_reduces(nodes, seed=seed_of_exchanges) if nodes > 1 else ()
    return job_of(cluster.training(nodes, seed=seed), *exchanges)


def drawn(value):
    return np.array([value, value])


def test_a_ring_is_fitted_to_its_own_times_and_loads_of_one_shape_tell_nothing_apart():
    loads = [load(ranks, size) for ranks in (2, 8) for size in (1e6, 1e8)]
    ring = fit_ring(loads, [drawn(hops * 3e-5 + moved / 5e9) for hops, moved in loads])
    assert ring.latency == pytest.approx(drawn(3e-5))
    assert 1 / ring.per_byte == pytest.approx(drawn(5e9))
    assert ring.seconds(160, 1e8) == pytest.approx(drawn(318 * 3e-5 + 318 / 160 * 1e8 / 5e9))
    assert fit_ring([load(2, 1e6)], [drawn(1.0)]) is None
    assert fit_ring([load(2, 1e6)] * 2, [drawn(1.0)] * 2) is None
    assert fit_ring([(2.0, 0.0), (4.0, 0.0)], [drawn(1.0), drawn(2.0)]) is None  # no bytes
    assert fit_ring([], []) is None


@pytest.mark.parametrize("seconds", [lambda hops, moved: hops, lambda hops, moved: moved])
def test_neither_latency_nor_the_time_of_a_byte_falls_below_zero(seconds):
    loads = [load(ranks, size) for ranks in (2, 8) for size in (1e6, 1e8)]
    times = [
        drawn(max(seconds(*one) * (1 + sign), 1e-9))
        for one, sign in zip(loads, (0.2, -0.2, -0.2, 0.2), strict=True)
    ]
    ring = fit_ring(loads, times)
    assert (ring.latency >= 0).all()
    assert (ring.per_byte >= 0).all()


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(),
        Cluster(hidden=0.03, data=0.02),
        Cluster(latency=3e-4, hidden=0.05),  # more ranks, ever more hops
        Cluster(devices=8, per_byte=1 / 1.2e10, hidden=0.01),
        Cluster(hidden=-0.02),  # an exchange is slower in a step than by itself
    ],
)
def test_the_truth_lies_within_the_interval(cluster):
    found = prediction_of(*sweep(cluster, NUMBERS))
    assert found.outcome == "holds"
    assert found.by_all_reduce
    assert holds(found.latency_seconds, cluster.latency)
    assert holds(found.bytes_per_second, 1 / cluster.per_byte)
    assert holds(found.hidden_seconds, cluster.hidden)
    assert found.points[-1].ranks == 160
    for point in found.points[1:]:
        assert holds(point.efficiency, cluster.efficiency(point.nodes))
        rate = point.ranks * 64 / cluster.step(point.nodes)
        assert holds(point.images_per_second, rate)
        assert holds(point.communication_seconds, cluster.exposed(point.nodes)) or (
            point.communication_seconds.value == 0
        )
    assert [point.nodes for point in found.points if point.measured] == list(NUMBERS)


@quick_and_long(("runs", "least"), quick=(12, 10), long=(40, 34))
def test_intervals_hold_the_truth_as_often_as_they_say(runs, least):
    """95 % of them in the long run, or more."""
    cluster = Cluster(hidden=0.05)
    hits = 0
    for seed in range(1, runs + 1):
        found = prediction_of(*(measured(cluster, nodes, seed, seed) for nodes in (1, 2, 4)))
        hits += holds(found.points[-1].efficiency, cluster.efficiency(160))
    assert hits >= least


@pytest.mark.parametrize("numbers", [(1, 2, 4, 8), (1, 2, 4, 8, 16)])
def test_the_check_is_of_numbers_of_nodes_that_the_model_does_not_know(numbers):
    cluster = Cluster(hidden=0.05)
    found = prediction_of(*sweep(cluster, numbers))
    assert [point.nodes for point in found.checked] == list(numbers[3:])
    assert found.fitted_nodes == numbers
    for point in found.checked:
        assert point.outcome == "holds"
        assert abs(point.error) < 0.01
        assert holds(point.predicted, cluster.efficiency(point.nodes))


def test_a_network_that_is_congested_from_8_nodes_on_is_noticed():
    cluster = Cluster(congested_from=8)
    found = prediction_of(*sweep(cluster, NUMBERS))
    assert (found.outcome, found.fitted_nodes) == ("wrong", (1, 2, 4))
    (point,) = found.checked
    assert point.outcome == "wrong"
    assert found.points[-1].nodes == 8  # no number for more nodes
    assert point.predicted.value == pytest.approx(Cluster().efficiency(8), rel=0.01)
    assert point.measured.value == pytest.approx(cluster.efficiency(8), rel=0.01)
    assert point.error > 1


def test_an_error_at_the_check_widens_what_is_predicted():
    good, worse = Cluster(hidden=0.05), Cluster(hidden=0.045)  # less is hidden on 8 nodes
    jobs = [*sweep(good, (1, 2, 4)), *sweep(worse, (8,))]
    found = prediction_of(*jobs)
    (checked,) = found.checked
    assert checked.outcome == "holds"
    assert 0.01 < checked.error < 0.05

    def width(prediction):
        ends = prediction.points[-1].efficiency.interval
        return ends.high - ends.low

    assert width(found) > width(prediction_of(*sweep(good, NUMBERS)))


def test_without_all_reduces_steps_tell_the_network_where_there_are_enough():
    cluster = Cluster(hidden=0.0)
    found = prediction_of(*sweep(cluster, (1, 2, 4, 8), all_reduce=False))
    assert (found.outcome, found.by_all_reduce) == ("holds", False)
    assert holds(found.bytes_per_second, 1 / cluster.per_byte)
    assert holds(found.points[-1].efficiency, cluster.efficiency(160))
    three = prediction_of(*sweep(cluster, (1, 2, 4), all_reduce=False))
    assert three.outcome == "not_checked"
    assert three.reason.startswith("there are too few other node counts to fit a model")
    two = prediction_of(*sweep(cluster, (1, 2), all_reduce=False))
    assert two.outcome == "not_known"
    assert "all-reduces of two sizes were not measured" in two.reason


def test_two_numbers_of_nodes_or_a_bound_check_no_model():
    found = prediction_of(*sweep(Cluster(hidden=0.05), (1, 2)))
    assert (found.outcome, found.checked) == ("not_checked", ())
    assert found.reason == "the check requires 3 node counts, but only 2 were measured"
    assert holds(found.points[-1].efficiency, Cluster(hidden=0.05).efficiency(160))
    # A bound checks no model that gives more than a bound.
    found = prediction_of(*sweep(Cluster(), (1, 2, 4)))  # some of it shows on 4 nodes alone
    assert (found.outcome, found.at_least, found.checked) == ("not_checked", False, ())
    assert found.reason.startswith("on fewer nodes, computation hid the entire exchange")
    assert holds(found.points[-1].efficiency, Cluster().efficiency(160))


def test_parts_longer_than_their_step_and_an_exchange_that_does_not_show_predict_nothing():
    jobs = []
    for nodes in NUMBERS:
        row = Cluster(spread=0.3).training(nodes, gradient_bytes=2**60)
        exchanges = Cluster().all_reduces(nodes) if nodes > 1 else ()
        jobs.append(job_of(otherwise(row, split={"communication_seconds": 1e3}), *exchanges))
    found = prediction_of(*jobs)
    assert (found.outcome, found.points) == ("not_known", ())
    # Nor does an exchange that does not show, without all-reduces.
    cluster = Cluster(latency=1e-3, per_byte=1 / 2.5e9)
    assert cluster.efficiency(8) == 1
    assert cluster.efficiency(160) < 0.4
    found = prediction_of(*sweep(cluster, NUMBERS, all_reduce=False))
    assert (found.outcome, found.points) == ("not_known", ())
    assert found.reason.endswith("on 2 nodes it is hidden by computation")


def test_an_exchange_that_is_hidden_altogether_leaves_a_least_efficiency():
    fast = Cluster(per_byte=1 / 3e9)  # nothing shows up to 8 nodes
    found = prediction_of(*sweep(fast, NUMBERS))
    assert (found.outcome, found.at_least) == ("holds", True)
    assert found.hidden_seconds.value < fast.hidden
    for point in found.points[1:]:
        assert point.efficiency.interval.low <= fast.efficiency(point.nodes)
    slower = sweep(Cluster(per_byte=1 / 3e9, congested_from=8), (8,))
    found = prediction_of(*sweep(fast, (1, 2, 4)), *slower)
    assert (found.outcome, found.checked[0].error > 0) == ("wrong", True)


@pytest.mark.parametrize("levels", [(0.69, 1.13), (0.16, 0.24, 0.32)])
def test_computing_that_grows_with_the_nodes_predicts_nothing(levels):
    jobs = []
    for power, seconds in enumerate(levels):
        jobs += sweep(Cluster(compute=seconds, hidden=0.0), (2**power,))
    found = prediction_of(*jobs)
    assert (found.outcome, found.points) == ("not_known", ())
    assert found.reason.startswith("compute and data take ")


def test_a_model_that_misses_what_it_is_fitted_to_predicts_nothing():
    jobs = [*sweep(Cluster(hidden=0.0), (1, 4)), *sweep(Cluster(hidden=-0.1), (2,))]
    found = prediction_of(*jobs, *sweep(Cluster(hidden=0.0), (8,)))
    assert (found.outcome, found.points) == ("not_known", ())
    assert found.reason.startswith("on 2 nodes, to which the model was fitted, its step time is 0.")


@quick_and_long("runs", quick=[4], long=[12])
def test_noise_makes_no_model_hold(runs):
    for seed in range(1, runs + 1):
        jobs = []
        for nodes in NUMBERS:
            slow = Cluster(hidden=0.02, spread=0.3, per_byte=1 / (8e8 if nodes == 8 else 1.2e9))
            jobs.append(measured(slow, nodes, seed * 10 + nodes, seed * 7 + nodes))
        assert prediction_of(*jobs).outcome != "holds"


def test_nodes_that_may_share_a_machine_predict_nothing():
    off_ec2 = [
        otherwise(Cluster().training(nodes), *[{"instance_type": None}] * nodes)
        for nodes in (1, 2, 4)
    ]
    found = prediction_of(*map(job_of, off_ec2))
    assert found.outcome == "not_known"
    assert found.reason.startswith("its nodes share or may share one machine, so")


def test_a_bandwidth_is_that_of_most_draws():
    assert _rate(np.array([1e-9, 0.0, *[1e-9] * 3_999])).value == pytest.approx(1e9)
    assert _rate(np.array([1e-9, *[0.0] * 400, *[1e-9] * 3_600])) is None


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"split": None}, "at one node count, no job reported how its steps split"),
        ({"gradient_bytes": None}, "no job reported how many bytes of gradients it exchanges"),
    ],
)
def test_what_is_not_told_is_not_predicted(told, reason):
    found = prediction_of(*(job_of(Cluster().training(n, **told)) for n in (1, 2, 4)))
    assert (found.outcome, found.reason, found.points) == ("not_known", reason, ())


def reach_of(*jobs):
    return training_of(*jobs).reach


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hidden": 1.0}, ("scales", 8, True, None)),
        ({}, ("scales", 4, False, None)),  # E(8) = 0.845
        ({"congested_from": 8}, ("scales", 4, False, 8)),
        ({"hidden": 0.05}, ("falls_short", 2, False, 4)),  # E(2) = 0.82, E(4) = 0.67
        ({"hidden": 0.0, "per_byte": 1 / 1e8}, ("falls_short", 2, False, 2)),
    ],
)
def test_the_verdict_is_of_the_intervals(fields, expected):
    reach = reach_of(*sweep(Cluster(**fields), NUMBERS))
    assert (reach.verdict, reach.nodes, reach.open_ended, reach.poor_from) == expected


def test_an_interval_that_holds_the_threshold_or_too_few_samples_or_nodes_are_not_known():
    cluster = Cluster(compute=0.16, hidden=0.0673, spread=0.3)  # E(2) = 0.9
    reach = reach_of(*sweep(cluster, (1, 2)))
    assert cluster.efficiency(2) == pytest.approx(0.9, abs=0.001)
    assert reach.verdict == "not_known"
    assert reach.reason == "the interval includes 0.9"
    reach = reach_of(*(job_of(Cluster().training(nodes, count=4)) for nodes in (1, 2)))
    assert (reach.verdict, reach.nodes) == ("not_known", None)
    assert reach.reason.startswith("4 samples")
    reach = reach_of(*sweep(Cluster(), (2,)))
    assert reach.reason == (
        "it was measured on 2 nodes only; judging how it scales requires two different node counts"
    )
    apart = (Cluster().training(1, 64), Cluster().training(2, 48))
    assert (
        reach_of(*map(job_of, apart)).reason
        == "no two node counts had the same batch size per device"
    )
    # Too few samples of the second number are no verdict of the third.
    reach = reach_of(*stepping({1: 0.16, 2: 0.16, 4: 0.3}, samples={2: 4}))
    assert (reach.verdict, reach.nodes) == ("not_known", None)
    assert reach.reason.startswith("4 samples")


def stepping(seconds, samples=None):
    """Jobs whose steps take so long by their nodes, all of it computing; 30 samples, or so many."""
    counts = dict.fromkeys(seconds, 30) | (samples or {})
    return [
        job_of(Cluster(compute=one, hidden=1.0).training(nodes, count=counts[nodes]))
        for nodes, one in seconds.items()
    ]


def test_it_scales_to_where_it_falls_short_for_the_first_time():
    back = reach_of(*stepping({1: 0.16, 2: 0.22, 4: 0.161, 8: 0.162}))
    assert (back.verdict, back.nodes, back.poor_from) == ("falls_short", 2, None)
    back = reach_of(*stepping({1: 0.16, 2: 0.161, 4: 0.25, 8: 0.162}))
    assert (back.verdict, back.nodes, back.open_ended, back.poor_from) == ("scales", 2, False, None)
    # Numbers that are undecided end nothing.
    jobs = [*stepping({1: 0.16, 2: 0.161}), *sweep(Cluster(compute=0.178, spread=0.3), (4,))]
    reach = reach_of(*jobs)
    assert (reach.verdict, reach.nodes, reach.open_ended) == ("scales", 2, True)


def test_more_than_all_that_is_possible_is_noticed_and_nothing_lost_has_no_limit():
    assert reach_of(*stepping({1: 0.32, 2: 0.16, 4: 0.16})).above_one == 2
    assert reach_of(*sweep(Cluster(), NUMBERS)).above_one is None
    assert reach_of(*sweep(Cluster(hidden=1.0), NUMBERS)).limit_nodes is None


def test_repeats_that_differ_make_intervals_that_hold_the_truth():
    training = training_of(*sweep(Cluster(), (1, 2)))
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(100):
        measured = []
        for point, seconds in zip(training.points, (1, 1 / 0.895), strict=True):
            jobs = seconds * np.exp(rng.normal(0, 0.03, (3, 1)) + rng.normal(0, 0.01, (3, 10)))
            median = Median(jobs)
            measured.append(Measured(point, median, list(np.median(jobs, axis=1))))
        (curve,) = curves_of(measured, "weak")
        interval = curve.point(2).efficiency.interval
        hits += interval.low <= 0.895 <= interval.high
    assert hits >= 95  # 95 of 100 in the long run; resampling the jobs alone, 85


@pytest.mark.parametrize(
    ("cluster", "limit"),
    [
        (lambda nodes: Cluster(hidden=0.05), "communication"),
        (lambda nodes: Cluster(data=0.02 * nodes, hidden=1.0), "data"),  # all share a file system
    ],
)
def test_what_limits_it_is_the_part_that_grew(cluster, limit):
    reach = reach_of(*(job_of(cluster(nodes).training(nodes)) for nodes in NUMBERS))
    assert (reach.limit, reach.limit_nodes) == (limit, 8)
    assert reach.limit_share == pytest.approx(1, abs=0.02)


def test_a_slower_node_limits_by_computing_and_strong_scaling_is_judged_too():
    slow = Cluster(compute=0.30, hidden=1.0)
    jobs = [*sweep(Cluster(hidden=1.0), (1,)), *sweep(slow, (2,))]
    assert reach_of(*jobs).limit == "compute"
    cluster = Cluster(hidden=0.0)
    reach = reach_of(*(job_of(cluster.training(n, 64 // n)) for n in (1, 2, 4)))
    assert (reach.verdict, reach.nodes, reach.limit) == ("falls_short", 2, "communication")


@pytest.mark.parametrize("split", [None, {"communication_seconds": 0.0}])
def test_what_no_part_explains_is_not_known(split):
    cluster = Cluster(hidden=0.0)
    one, two = cluster.training(1), cluster.training(2)
    two = otherwise(two, split=split) if split else cluster.training(2, split=None)
    reach = reach_of(job_of(one), job_of(two))
    assert (reach.verdict, reach.limit, reach.limit_nodes) == ("falls_short", None, 2)
    assert reach.limit_reason.startswith("no part" if split else "at one node count, no job")


def test_a_part_that_grew_by_more_than_the_step_contradicts_it():
    one, two = Cluster().training(1), Cluster(compute=0.18, hidden=1.0).training(2)
    two = otherwise(two, split={"communication_seconds": 0.06})
    reach = reach_of(job_of(one), job_of(two))
    assert reach.limit is None
    assert reach.limit_reason == (
        "communication alone grew by 60.0 ms, but the whole step grew by only 20.0 ms"
    )


def test_waiting_for_data_on_the_fewest_nodes_is_said_where_it_is_much():
    assert reach_of(*sweep(Cluster(data=0.04), (1, 2))).waits_for_data == pytest.approx(0.2)
    assert reach_of(*sweep(Cluster(data=0.01), (1, 2))).waits_for_data is None
