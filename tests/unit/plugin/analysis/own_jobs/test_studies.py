"""What a run says of an own job: its sides, their figures, what counts, and its duels."""

from collections import Counter

import pytest

from batchmark.analysis import sides
from batchmark.analysis.comparison import compare
from batchmark.analysis.own_jobs.figures import place_of, place_order
from batchmark.analysis.own_jobs.records import Place
from batchmark.analysis.side_by_side import Chosen, side_by_side
from batchmark.core.errors import CollectError
from batchmark_job.result.document import Device
from batchmark_job.result.own_job import BadLine, OwnersCheck
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
from tests.builders.runs import CPU_ENVIRONMENT, LAPTOP_ENVIRONMENT, PRICES, build_run
from tests.builders.studies import own_study


def figure_of(study, target, size=SMALL, start="warm"):
    (side,) = [side for side in study.sides if side.target.target == target]
    (found,) = [one for one in side.figures if (one.place.size, one.place.start) == (size, start)]
    return found


def test_a_study_has_a_figure_for_each_side_and_size():
    study = own_study(*own_run().jobs)
    assert (study.name, study.suite, study.axis) == ("thumbnails", "job-thumbnails", "size")
    assert [side.target.target for side in study.sides] == ["c5.2xlarge", "g5.xlarge"]
    for side, truth in zip(study.sides, (CPU, GPU), strict=True):
        assert [one.place.size for one in side.figures] == list(SIZES)
        for figure in side.figures:
            truly = truth.seconds(figure.place.size)
            assert figure.seconds.value == pytest.approx(truly, rel=0.02)
            assert figure.command_seconds == pytest.approx(figure.seconds.value - 1)
            assert (figure.jobs, figure.waiting_seconds) == (6, 30)
            assert figure.checked_by == ("exit_code",)
            assert figure.usd_per_job.value == pytest.approx(
                figure.seconds.value * side.price.usd_per_hour / 3600
            )


@pytest.mark.parametrize(
    ("check", "kinds"), [("checksum", ()), ("command", ("command",)), ("exit_code", ("exit_code",))]
)
def test_an_output_that_was_checked_is_named(check, kinds):
    checked = OwnersCheck(kind=check, passed=True, output_sha256="ab" * 32)
    (side,) = own_study(*JobOn("g5.xlarge", plan={"output": "out.zip"}).jobs(check=checked)).sides
    assert side.figures[0].checked_by == (*kinds, "the checksum of out.zip")


def test_sides_have_the_one_order_of_targets_whatever_that_of_the_jobs():
    names = ["g5.12xlarge", "g5.xlarge", "c6i.large", "g5.2xlarge"]
    study = own_study(*(JobOn(name).job(repeat=1) for name in names))
    in_order = ["c6i.large", "g5.xlarge", "g5.2xlarge", "g5.12xlarge"]
    assert [side.target.target for side in study.sides] == in_order


def test_a_study_knows_its_axis_and_if_it_compares_jobs_on_batch_already():
    study = own_study(*GPU.jobs((None,)), *CPU.jobs((None,)))
    assert study.axis is None
    assert [best.place.size for best in study.best] == [None]
    existing = JobOn("c5.2xlarge", plan={"existing": True})
    assert own_study(*existing.jobs()).existing
    assert not own_study(*CPU.jobs()).existing


def test_cold_and_warm_instances_are_never_mixed():
    study = own_study(
        *GPU.jobs(repeats=3, start="cold"),
        *[GPU.job(repeat=n) for n in (4, 5, 6)],
        *CPU.jobs(),
    )
    cold, warm = (figure_of(study, "g5.xlarge", start=start) for start in ("cold", "warm"))
    assert (cold.jobs, warm.jobs) == (3, 3)
    assert cold.seconds.value - warm.seconds.value == pytest.approx(GPU.on_cold, abs=1)
    assert {duel.place.start for duel in study.duels} == {"warm"}
    assert [best.place.start for best in study.best] == ["cold", "warm"]


def test_a_failed_check_leaves_a_side_without_a_figure_at_that_size():
    jobs = [*GPU.jobs((SMALL, LARGE), 5), *CPU.jobs((SMALL, LARGE), 6)]
    bad = GPU.job(LARGE, 6, start="cold", check=failed())
    study = own_study(*jobs, GPU.job(SMALL, 6), bad)
    for start in ("cold", "warm"):
        figure = figure_of(study, "g5.xlarge", LARGE, start)
        assert figure.problem == "1 of 6 jobs failed: its check ended with 1"
        assert (figure.seconds, figure.usd_per_job, figure.metrics) == (None, None, ())
        assert figure.jobs == 0
    assert figure_of(study, "g5.xlarge", SMALL).seconds
    assert {duel.place.size for duel in study.duels} == {SMALL}
    (large,) = [best for best in study.best if best.place.size == LARGE]
    assert (large.fastest, large.cheapest) == (None, None)


def test_a_job_that_failed_without_telling_of_its_machine_spoils_no_other_size():
    unknown = LAPTOP_ENVIRONMENT  # a machine outside EC2
    silent = JobOn("g5.xlarge", environment=unknown, actual_device=Device.CPU)
    study = own_study(
        silent.job(LARGE, 1, start=None, check=failed("it ended with 3", "exit_code")),
        *GPU.jobs((SMALL, LARGE), 3),
    )
    assert study.sides[0].refused is None
    assert study.sides[0].target.actual_device is Device.CUDA
    assert figure_of(study, "g5.xlarge", SMALL).jobs == 3
    assert figure_of(study, "g5.xlarge", SMALL).usd_per_job
    assert figure_of(study, "g5.xlarge", LARGE).problem == "1 of 4 jobs failed: it ended with 3"


def test_lost_jobs_only_reduce_the_count():
    study = own_study(
        *GPU.jobs(repeats=4),
        *CPU.jobs(),
        lost=[
            GPU.lost(SMALL, "Host EC2 terminated.", 5),
            GPU.lost(LARGE, "Job attempt duration exceeded timeout\nmore", 1),
        ],
    )
    assert figure_of(study, "g5.xlarge", SMALL).jobs == 4
    nothing = figure_of(study, "g5.xlarge", LARGE, start=None)
    assert nothing.problem == (
        "none of its jobs left a result: Job attempt duration exceeded timeout"
    )
    assert {best.place.size for best in study.best} == {SMALL}


def test_metrics_are_told_in_their_unit_with_what_one_costs():
    told = {THROUGHPUT: (120.0, 110.0, 130.0), LOSS: (0.25,), ("score", "fps", "higher"): (64.0,)}
    study = own_study(*GPU.jobs(told=told))
    figure = figure_of(study, "g5.xlarge")
    rate, loss, score = figure.metrics
    assert (rate.value.value, rate.values, rate.jobs, rate.unit) == (120, 18, 6, "images/s")
    assert rate.value.interval.low <= 120 <= rate.value.interval.high
    assert rate.usd_per_unit.value == pytest.approx(1.006 / 3600 / 120)
    assert (loss.value.value, loss.usd_per_unit) == (0.25, None)
    assert (score.value.value, score.usd_per_unit) == (pytest.approx(64), None)


def test_bad_lines_of_all_jobs_are_listed_once():
    one, other = (
        BadLine(source="log", number=n, text=f"line {n}", problem="no JSON") for n in (3, 4)
    )
    study = own_study(
        GPU.job(repeat=1, bad_lines=(one,), metrics_left_out=2),
        GPU.job(repeat=2, bad_lines=(one, other), metrics_left_out=1),
        GPU.job(repeat=3),
    )
    assert study.sides[0].bad_lines == (one, other)
    assert study.sides[0].bad_lines_by_job == (1, 2)
    assert study.sides[0].metrics_left_out == 3


def test_jobs_of_two_images_are_not_pooled():
    newer = JobOn("g5.xlarge", image="registry.example/thumbnails:1.1")
    study = own_study(*GPU.jobs(repeats=3), newer.job(repeat=4), *CPU.jobs())
    cpu, gpu = study.sides
    assert (refused := gpu.refused)
    assert "image reference: registry.example/thumbnails:1.0" in refused
    assert (cpu.refused, gpu.figures) == (None, ())
    assert figure_of(study, "c5.2xlarge").seconds


@pytest.mark.parametrize(
    "lacking",
    [{"image_digest": None}, {"cpu_model": "unknown", "compute_threads": 1, "gpu_model": None}],
)
def test_what_a_job_did_not_tell_is_no_difference(lacking):
    known = GPU.job(repeat=1)
    silent = JobOn("g5.xlarge", environment=known.document.environment.model_copy(update=lacking))
    (side,) = own_study(known, silent.job(repeat=2)).sides
    assert side.refused is None


def test_a_cold_start_is_of_cold_instances_only():
    bad = GPU.job(LARGE, 4, start="cold", check=failed())
    study = own_study(*GPU.jobs(repeats=2, start="cold"), GPU.job(repeat=3), bad, *CPU.jobs())
    cpu, gpu = (side.cold_start for side in study.sides)
    assert (gpu.jobs, cpu) == (2, None)
    assert set(gpu.notes) == {
        "1 of 4 jobs are not included: their instance was already running.",
        "1 of 4 jobs are not included: they have no result.",
    }
    assert gpu.seconds == 30


def test_two_sides_of_one_device_are_compared_without_a_pair():
    small, large = JobOn("c5.2xlarge"), JobOn("c6i.large", each=0.2)
    found = compare(build_run(*small.jobs(), *large.jobs()), PRICES)
    assert (found.pairs, found.notices) == ((), ())
    assert found.studies["own_jobs"][0].best[0].fastest == "c5.2xlarge"
    assert set(found.prices.on_demand) == {"c5.2xlarge"}


def on_type(side, instance_type, repeats, **fields):
    """A side's jobs on a type that its queue chose."""
    environment = CPU_ENVIRONMENT.model_copy(update={"cpu_model": f"of {instance_type}"})
    here = {"instance_type": instance_type}
    for repeat in repeats:
        job = JobOn(side, environment=environment).job(repeat=repeat, **fields)
        own = job.document.environment.model_copy(update=here)
        document = job.document.model_copy(update={"environment": own})
        planned = job.planned.model_copy(update=here)
        yield job.model_copy(update={"document": document, "planned": planned})


def test_a_side_on_two_instance_types_has_figures_of_each_and_is_compared_with_no_other_run():
    study = own_study(
        *on_type("queue-a", "c5.2xlarge", (1, 2, 3)),
        *on_type("queue-a", "g5.xlarge", (4, 5, 6)),
        *GPU.jobs(),
        lost=[JobOn("queue-a").lost(SMALL, "lost", 7), JobOn("queue-a").lost(LARGE, "too long", 1)],
    )
    _, first, second = study.sides
    assert [side.target.target for side in (first, second)] == [
        "queue-a on c5.2xlarge",
        "queue-a on g5.xlarge",
    ]
    for side in (first, second):
        figure = figure_of(study, side.target.target)
        assert (side.refused, side.price.note, figure.jobs) == (None, None, 3)
        usd = figure.seconds.value * PRICES.on_demand[side.price.instance_type] / 3600
        assert figure.usd_per_job.value == pytest.approx(usd)
    assert [(one.place.size, one.problem) for one in first.figures if one.problem] == [
        (LARGE, "none of its jobs left a result: too long")
    ]
    assert not any(one.problem for one in second.figures)
    assert len(study.duels) == 6  # of any two of three, by time and by one metric
    parts = on_type("queue-a", "c5.2xlarge", (1, 2)), on_type("queue-a", "g5.xlarge", (3, 4))
    run = build_run(*parts[0], *parts[1], *GPU.jobs())
    with pytest.raises(CollectError, match=r"several instance types \(c5\.2xlarge, g5\.xlarge\)"):
        side_by_side(Chosen(run, "queue-a", PRICES), Chosen(run, "g5.xlarge", PRICES))


def test_a_check_that_failed_on_one_type_makes_a_side_doubtful_on_all_and_splits_none():
    study = own_study(
        *on_type("queue-a", "c5.2xlarge", (1, 2)),
        *on_type("queue-a", "g5.xlarge", (3,)),
        *on_type("queue-a", "g5.xlarge", (4,), check=failed()),
    )
    for side in study.sides:
        problem = "1 of 4 jobs failed: its check ended with 1"
        assert [figure.problem for figure in side.figures] == [problem]
    # A job that failed without telling its type splits no side.
    (bad,) = on_type("queue-a", None, (3,), check=failed())
    jobs = [*on_type("queue-a", "c5.2xlarge", (1, 2))]
    assert [side.target.target for side in own_study(bad, *jobs).sides] == ["queue-a"]
    more = on_type("queue-a", "g5.xlarge", (4,))
    assert len(own_study(bad, *jobs, *more).sides) == 2


# Its duels: any two sides against each other

THIRD = JobOn("c6i.large", start_up=4.0, each=0.3)


def test_each_two_sides_meet_once_at_each_size_by_time_and_by_metric_that_both_have():
    found = own_study(
        *(job for side in (GPU, CPU, THIRD) for job in side.jobs((LARGE, SMALL)))
    ).duels
    pairs = [("c5.2xlarge", "c6i.large"), ("g5.xlarge", "c5.2xlarge"), ("g5.xlarge", "c6i.large")]
    assert [(one.place.size, one.metric, (one.first, one.second)) for one in found] == [
        (size, metric, pair)
        for size in (SMALL, LARGE)
        for metric in (None, "throughput")
        for pair in pairs
    ]
    study = own_study(
        *GPU.jobs((SMALL, LARGE), told={LOSS: (0.2,)}),
        *CPU.jobs((SMALL, LARGE), 5),
        CPU.job(LARGE, 6, check=failed()),
    )
    assert [(one.place.size, one.metric) for one in study.duels] == [(SMALL, None)]


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


def test_a_ratio_above_one_is_for_the_first_by_time_and_by_metric_and_agrees_with_the_values():
    told = {THROUGHPUT: (50.0,), LOSS: (0.2,)}, {THROUGHPUT: (100.0,), LOSS: (0.4,)}
    found = own_study(*GPU.jobs(told=told[0]), *CPU.jobs(told=told[1])).duels
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
    # It agrees with the values, of an even number, too, whose median lies between two.
    study = own_study(
        *GPU.jobs(told={THROUGHPUT: (10.0, 40.0)}), *CPU.jobs(told={THROUGHPUT: (20.0, 20.0)})
    )
    ours, theirs = (figure_of(study, side.target).metrics[0].value.value for side in (GPU, CPU))
    (duel,) = [duel for duel in study.duels if duel.metric]
    assert duel.ratio.value == pytest.approx(ours / theirs)
    assert ours == pytest.approx(16)  # of the median of seconds an image


def test_doubts_are_told_with_how_many_jobs_they_are_of():
    lost, killed = "its log is incomplete", "Batch says OutOfMemoryError"
    jobs = [
        *GPU.jobs(repeats=4),
        GPU.job(repeat=5, doubts=(lost,)),
        GPU.job(repeat=6, doubts=(lost, killed), check=failed()),
    ]
    assert figure_of(own_study(*jobs), "g5.xlarge").doubts == (
        f"2 of 6 jobs: {lost}",
        f"1 of 6 jobs: {killed}",
    )


@pytest.mark.parametrize(
    ("parameters", "axis", "place"),
    [
        ({"size": 64, "start": "warm"}, "size", Place(size=64, start="warm")),
        ({"size": 0.5}, "size", Place(size=0.5, start=None)),
        ({"start": "cold"}, None, Place(size=None, start="cold")),
        ({"size": -64, "start": "cold"}, "size", Place(size=None, start="cold")),
        ({"size": 64, "metric": "loss"}, "size", Place(size=64, start=None)),
    ],
)
def test_a_place_is_a_size_and_how_the_instance_was_found(parameters, axis, place):
    assert place_of(("thumbnails", tuple(parameters.items()), "none"), axis) == place


def test_cold_places_come_first_and_then_the_small():
    sizes, starts = (1, 2), ("cold", "warm", None)
    places = [Place(size=size, start=start) for size in reversed(sizes) for start in starts]
    assert [(place.start, place.size) for place in sorted(places, key=place_order)] == [
        (start, size) for start in starts for size in sizes
    ]


def test_of_two_rows_of_one_place_neither_counts():
    def doubled(job):
        (row,) = (one for one in job.document.measurements if "metric" not in one.parameters)
        rows = (*job.document.measurements, row.model_copy(update={"dtype": "float32"}))
        return job.with_document(job.document.model_copy(update={"measurements": rows}))

    jobs = [doubled(GPU.job(repeat=1)), *CPU.jobs(repeats=1)]
    (figure,) = own_study(*jobs).sides[1].figures
    assert figure.problem == "its documents have 2 rows for this size instead of one"
