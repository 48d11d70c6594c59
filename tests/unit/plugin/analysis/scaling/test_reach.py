"""How far a training scales, what limits it, and where the samples can't tell."""

import numpy as np
import pytest

from batchmark.analysis.scaling.curves import Measured, curves_of
from batchmark.core.intervals import Median
from tests.builders.scaling_runs import Cluster, job_of, otherwise, sweep
from tests.builders.studies import training_of

NUMBERS = (1, 2, 4, 8)


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


def test_an_interval_that_holds_the_threshold_is_not_known():
    cluster = Cluster(compute=0.16, hidden=0.0673, spread=0.3)  # E(2) = 0.9
    reach = reach_of(*sweep(cluster, (1, 2)))
    assert cluster.efficiency(2) == pytest.approx(0.9, abs=0.001)
    assert reach.verdict == "not_known"
    assert reach.reason == "the interval includes 0.9"


def test_too_few_samples_or_nodes_are_not_known():
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


class SlowFiles(Cluster):
    """Nodes whose file system has a fixed rate for all of them."""

    def training(self, nodes, batch=64, **fields):
        return Cluster(data=0.02 * nodes, hidden=1.0).training(nodes, batch, **fields)


@pytest.mark.parametrize(
    ("cluster", "limit"), [(Cluster(hidden=0.05), "communication"), (SlowFiles(), "data")]
)
def test_what_limits_it_is_the_part_that_grew(cluster, limit):
    reach = reach_of(*sweep(cluster, NUMBERS))
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
