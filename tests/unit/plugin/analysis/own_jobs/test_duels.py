"""Two sides of an own job against each other."""

from collections import Counter

import pytest

from batchmark.analysis import sides
from batchmark.analysis.comparison import compare
from batchmark_job.result.document import Device
from tests.builders.own_jobs import (
    CPU,
    GPU,
    LARGE,
    LOSS,
    SIZES,
    SMALL,
    THROUGHPUT,
    JobOn,
    failed,
    own_run,
)
from tests.builders.runs import LAPTOP_ENVIRONMENT, PRICES, build_run

THIRD = JobOn("c6i.large", start_up=4.0, each=0.3)


def duels(*jobs):
    (study,) = compare(build_run(*jobs), PRICES).studies["own_jobs"]
    return study.duels


def test_each_two_sides_meet_once_at_each_size_by_time_and_by_metric():
    found = duels(*(job for side in (GPU, CPU, THIRD) for job in side.jobs((LARGE, SMALL))))
    pairs = [("g5.xlarge", "c5.2xlarge"), ("g5.xlarge", "c6i.large"), ("c5.2xlarge", "c6i.large")]
    assert [(one.place.size, one.metric, (one.first, one.second)) for one in found] == [
        (size, metric, pair)
        for size in (SMALL, LARGE)
        for metric in (None, "throughput")
        for pair in pairs
    ]


def test_what_is_pooled_and_judged_for_the_duels_serves_the_pairs_too(monkeypatch):
    asked = []
    for name in ("group_jobs", "judge"):
        once = getattr(sides, name)
        monkeypatch.setattr(sides, name, lambda *of, once=once: asked.append(once) or once(*of))
    found = compare(own_run(), PRICES)
    assert len(found.pairs[0].rows) == len(SIZES)
    assert Counter(one.__name__ for one in asked) == {
        "group_jobs": 1,
        "judge": len(found.studies["own_jobs"][0].duels),
    }


def test_a_ratio_above_one_is_for_the_first_by_time_and_by_metric():
    told = {THROUGHPUT: (50.0,), LOSS: (0.2,)}, {THROUGHPUT: (100.0,), LOSS: (0.4,)}
    found = duels(*GPU.jobs(told=told[0]), *CPU.jobs(told=told[1]))
    by_metric = {one.metric: one for one in found}
    assert by_metric[None].ratio.value == pytest.approx(
        CPU.seconds(SMALL) / GPU.seconds(SMALL), rel=0.02
    )
    assert by_metric["throughput"].ratio.value == pytest.approx(0.5)
    assert by_metric["loss"].ratio.value == pytest.approx(2)
    assert {name: one.better for name, one in by_metric.items()} == {
        None: "c5.2xlarge",
        "throughput": "c5.2xlarge",
        "loss": "g5.xlarge",
    }


def test_what_one_side_alone_has_is_no_duel():
    found = duels(
        *GPU.jobs((SMALL, LARGE), told={LOSS: (0.2,)}),
        *CPU.jobs((SMALL, LARGE), 5),
        CPU.job(LARGE, 6, check=failed()),
    )
    assert [(one.place.size, one.metric) for one in found] == [(SMALL, None)]


def test_sides_of_one_machine_decide_nothing():
    """As targets of a laptop, of which one stands for a GPU."""
    sides = (
        JobOn(target, each=each, environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU)
        for target, each in (("g5.xlarge", 0.1), ("c5.2xlarge", 2.0))
    )
    for duel in duels(*(job for side in sides for job in side.jobs())):
        assert duel.better is None
        assert duel.noise.note.startswith("not comparable")
