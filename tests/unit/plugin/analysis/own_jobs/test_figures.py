"""A side's figures at each place."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.own_jobs.figures import order, place_of
from batchmark.analysis.own_jobs.records import Place
from tests.builders.own_jobs import CPU, GPU, LARGE, SMALL, THROUGHPUT, failed
from tests.builders.reports import render_html, report_of
from tests.builders.runs import PRICES, build_run

HOURLY = {"g5.xlarge": 3.6}
IMAGES = ("images", "", "higher")


def figures(*jobs, lost=(), on_demand=HOURLY):
    prices = PRICES.model_copy(update={"on_demand": on_demand})
    (study,) = compare(build_run(*jobs, lost=lost), prices).studies["own_jobs"]
    return study.sides[0].figures


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
    assert [(place.start, place.size) for place in sorted(places, key=order)] == [
        (start, size) for start in starts for size in sizes
    ]


def test_dollars_are_of_a_job_and_of_the_rates_that_it_tells():
    (figure,) = figures(*GPU.jobs(told={THROUGHPUT: (50.0,), IMAGES: (64.0,)}))
    rate, images = figure.metrics
    assert figure.usd_per_job.value == pytest.approx(figure.seconds.value / 1000)
    assert rate.usd_per_unit.value == pytest.approx(1 / 1000 / 50)
    assert images.usd_per_unit is None  # it is no rate
    (figure,) = figures(*GPU.jobs(told={THROUGHPUT: (50.0,), IMAGES: (64.0,)}), on_demand={})
    assert figure.usd_per_job is None
    assert [metric.usd_per_unit for metric in figure.metrics] == [None, None]


def test_of_two_rows_of_one_place_neither_counts():
    def doubled(job):
        (row,) = (one for one in job.document.measurements if "metric" not in one.parameters)
        rows = (*job.document.measurements, row.model_copy(update={"dtype": "float32"}))
        document = job.document.model_copy(update={"measurements": rows})
        return job.model_copy(update={"document": document})

    jobs = [doubled(GPU.job(repeat=1)), *CPU.jobs(repeats=1)]
    report = report_of(build_run(*jobs))
    (study,) = report.studies["own_jobs"]
    (figure,) = study.sides[0].figures
    assert figure.problem == "its documents have 2 rows of it, and may have one"
    assert "its documents have 2 rows of it" in render_html(report)


def test_the_longest_job_is_of_those_that_count():
    (figure,) = figures(GPU.job(repeat=1, seconds=9.0), GPU.job(repeat=2, seconds=11.0))
    assert (figure.longest_seconds, figure.jobs, figure.seconds.value) == (11.0, 2, 10.0)


def test_a_problem_is_told_without_the_sides_name():
    jobs = [*GPU.jobs((SMALL, LARGE), 2), GPU.job(SMALL, 3, check=failed("no file"))]
    small, large = figures(*jobs, lost=[GPU.lost(256, "Host EC2 terminated.")])[:2]
    assert small.problem == "1 of 3 jobs failed: no file"
    assert (small.seconds, small.metrics) == (None, ())
    assert (large.problem, large.jobs) == (None, 2)


def test_a_size_of_which_all_jobs_are_lost_has_their_reason():
    *_, lost = figures(*GPU.jobs(), lost=[GPU.lost(LARGE, "Host EC2 terminated.\nmore")])
    assert (lost.place.size, lost.jobs) == (LARGE, 0)
    assert lost.problem == "none of its jobs left a result: Host EC2 terminated."
