"""Which side is best at a place, and by which deadline."""

from batchmark.core.row_values import ToldMetric
from batchmark_job.result.document import Device
from tests.builders.own_jobs import CPU, GPU, LARGE, SMALL, JobOn
from tests.builders.runs import LAPTOP_ENVIRONMENT, PRICES
from tests.builders.studies import own_study


def study_of(*sides, sizes=(SMALL, LARGE), repeats=6):
    return own_study(*(job for side in sides for job in side.jobs(sizes, repeats)))


def test_the_fastest_and_the_cheapest_are_ahead_of_every_other_side_and_a_tie_is_not_known():
    dear = JobOn("g6.xlarge", start_up=40.0)
    small, large = study_of(GPU, CPU, dear).best
    assert (small.place.size, small.fastest, small.cheapest) == (SMALL, "c5.2xlarge", "c5.2xlarge")
    assert (large.place.size, large.fastest, large.cheapest) == (LARGE, "g5.xlarge", "g5.xlarge")
    study = study_of(GPU, JobOn("g4dn.xlarge", start_up=12.0, each=0.01), sizes=(SMALL,))
    (best,) = study.best
    assert best.fastest is None
    assert best.cheapest == "g4dn.xlarge"
    assert study.duels[0].better is None


def test_the_cheapest_side_changes_with_the_deadline():
    fast, slow = GPU, JobOn("c5.2xlarge", start_up=20.0, each=0.01, plan={"deadline_seconds": 16})
    study = study_of(slow, fast, sizes=(SMALL,))
    (best,) = study.best
    first, second = best.deadlines
    assert (first.target, second.target) == ("g5.xlarge", "c5.2xlarge")
    assert first.usd_per_job > second.usd_per_job
    assert (first.jobs, first.rivals, second.rivals) == (6, (), ())
    assert study.deadline_seconds == 16
    assert best.within == first
    # A side that is slower and dearer is no step.
    dear = JobOn("g6.xlarge", start_up=300.0)
    (best,) = study_of(GPU, dear, sizes=(SMALL,)).best
    assert [step.target for step in best.deadlines] == ["g5.xlarge"]
    assert best.within is None


def test_a_deadline_is_kept_by_the_interval_and_by_the_longest_job():
    study = study_of(CPU, sizes=(SMALL,), repeats=3)
    figure = study.sides[0].figures[0]
    assert study.best[0].deadlines[0].from_seconds == figure.longest_seconds > figure.seconds.value
    figure = study_of(CPU, sizes=(SMALL,)).sides[0].figures[0]
    for longest, kept in ((1.0, figure.seconds.interval.high), (99.0, 99.0)):
        assert figure.model_copy(update={"longest_seconds": longest}).kept_seconds == kept
    assert figure.model_copy(update={"seconds": None}).kept_seconds is None


def test_two_sides_that_dollars_do_not_tell_apart_are_both_named_by_a_deadline():
    """Of about the same dollars a job, the slower one a little less by its figure alone."""
    same = JobOn("c5.2xlarge", start_up=GPU.seconds(SMALL) * 1.006 / 0.34 * 0.997, each=0.0)
    prices = PRICES.model_copy(update={"on_demand": PRICES.on_demand | {"c5.2xlarge": 0.34}})
    (best,) = own_study(*GPU.jobs(), *same.jobs(), prices=prices).best
    assert (best.fastest, best.cheapest) == ("g5.xlarge", None)
    first, second = best.deadlines
    assert (first.target, first.rivals) == ("g5.xlarge", ())
    assert (second.target, second.rivals) == ("c5.2xlarge", ("g5.xlarge",))
    assert second.from_seconds > first.from_seconds


def test_the_cheapest_is_of_the_sides_with_a_price():
    unpriced = JobOn("c7i.large", start_up=60.0)
    (best,) = study_of(GPU, CPU, unpriced, sizes=(SMALL,)).best
    assert (best.fastest, best.cheapest) == ("c5.2xlarge", "c5.2xlarge")
    assert best.unpriced == ("c7i.large",)
    (best,) = study_of(GPU, unpriced, sizes=(SMALL,)).best
    assert (best.fastest, best.cheapest) == ("g5.xlarge", None)
    assert [step.target for step in best.deadlines] == ["g5.xlarge"]


def test_on_one_machine_nothing_is_known_of_a_gpu_but_of_two_cpu_sides():
    laptop = {"environment": LAPTOP_ENVIRONMENT}
    fell_back = JobOn("g5.xlarge", actual_device=Device.CPU, start_up=30.0, **laptop)
    cpu = JobOn("c5.2xlarge", start_up=4.0, **laptop)
    study = study_of(fell_back, cpu, sizes=(SMALL,))
    (best,) = study.best
    assert (best.fastest, best.cheapest, best.deadlines) == (None, None, ())
    assert "both ran on the same CPU" in study.duels[0].noise.note
    (best,) = study_of(cpu, JobOn("c6i.large", **laptop), sizes=(SMALL,)).best
    assert (best.fastest, best.cheapest) == ("c5.2xlarge", None)


def test_a_name_with_two_units_is_two_metrics():
    speeds = ("speed", "images/s", "higher"), ("speed", "s", "lower")
    jobs = [
        job
        for side, factor in ((GPU, 1.0), (CPU, 2.0))
        for job in side.jobs(told={speeds[0]: (10.0 * factor,), speeds[1]: (3.0 * factor,)})
    ]
    study = own_study(*jobs)
    duels = {duel.told: duel.better for duel in study.duels if duel.metric}
    assert duels == {
        ToldMetric("speed", "images/s", higher_is_better=True): "c5.2xlarge",
        ToldMetric("speed", "s", higher_is_better=False): "g5.xlarge",
    }
    told = [metric.told for metric in study.sides[0].figures[0].metrics]
    assert set(told) == set(duels)
