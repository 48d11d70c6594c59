"""How far a training scales, what limits it, and where the samples can't tell."""

import pytest

from batchmark.analysis.scaling.studies import scaling_studies
from tests.builders.runs import PRICES, build_run
from tests.builders.scaling_runs import Cluster, scaling_job, sweep

GPU = "g5.xlarge"
NUMBERS = (1, 2, 4, 8)


def reach_of(*jobs):
    ((training,),) = (study.trainings for study in scaling_studies(build_run(*jobs), PRICES))
    return training.reach


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
    assert (reach.verdict, reach.nodes, reach.is_largest, reach.poor_from) == expected


def test_an_interval_that_holds_the_threshold_is_not_known():
    cluster = Cluster(compute=0.16, hidden=0.0673, spread=0.3)  # E(2) = 0.9
    reach = reach_of(*sweep(cluster, (1, 2)))
    assert cluster.efficiency(2) == pytest.approx(0.9, abs=0.001)
    assert reach.verdict == "not_known"
    assert reach.reason == "at 2 nodes the interval of the efficiency holds 0.9"


def test_too_few_samples_or_nodes_are_not_known():
    few = [
        row.model_copy(update={"samples_seconds": row.samples_seconds[:4]})
        for row in (Cluster().training(1), Cluster().training(2))
    ]
    reach = reach_of(*(scaling_job(GPU, n, [row]) for n, row in enumerate(few, start=1)))
    assert (reach.verdict, reach.nodes) == ("not_known", None)
    assert reach.reason.startswith("4 samples")
    reach = reach_of(*sweep(Cluster(), (2,)))
    assert reach.reason == "only 2 nodes measured, and it takes two"
    apart = [scaling_job(GPU, n, [Cluster().training(n, batch)]) for n, batch in ((1, 64), (2, 48))]
    assert reach_of(*apart).reason == "no two numbers of nodes had the same batch for each device"


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


def test_a_slower_node_limits_by_computing():
    slow = Cluster(compute=0.30, hidden=1.0)
    jobs = [*sweep(Cluster(hidden=1.0), (1,)), *sweep(slow, (2,))]
    assert reach_of(*jobs).limit == "compute"


def test_strong_scaling_alone_is_judged_too():
    cluster = Cluster(hidden=0.0)
    jobs = [scaling_job(GPU, n, [cluster.training(n, 64 // n)]) for n in (1, 2, 4)]
    reach = reach_of(*jobs)
    assert (reach.verdict, reach.nodes, reach.limit) == ("falls_short", 2, "communication")


@pytest.mark.parametrize("split", [None, {"communication_seconds": 0.0}])
def test_what_no_part_explains_is_not_known(split):
    cluster = Cluster(hidden=0.0)
    one, two = cluster.training(1), cluster.training(2)
    told = split and two.scaling.split.model_copy(update=split)
    two = two.model_copy(update={"scaling": two.scaling.model_copy(update={"split": told})})
    reach = reach_of(scaling_job(GPU, 1, [one]), scaling_job(GPU, 2, [two]))
    assert (reach.verdict, reach.limit, reach.limit_nodes) == ("falls_short", None, 2)


def test_nothing_is_looked_for_where_nothing_surely_is_lost():
    assert reach_of(*sweep(Cluster(hidden=1.0), NUMBERS)).limit_nodes is None


def test_waiting_for_data_on_the_fewest_nodes_is_said_where_it_is_much():
    assert reach_of(*sweep(Cluster(data=0.04), (1, 2))).waits_for_data == pytest.approx(0.2)
    assert reach_of(*sweep(Cluster(data=0.01), (1, 2))).waits_for_data is None
