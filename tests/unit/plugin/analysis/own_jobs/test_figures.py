"""A side's figures at each place."""

import pytest

from batchmark.analysis.own_jobs.figures import place_of, place_order
from batchmark.analysis.own_jobs.records import Place
from tests.builders.own_jobs import CPU, GPU
from tests.builders.reports import render_html, report_of
from tests.builders.runs import build_run


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
    report = report_of(build_run(*jobs))
    (study,) = report.studies["own_jobs"]
    (figure,) = study.sides[1].figures
    assert figure.problem == "its documents have 2 rows for this size instead of one"
    assert "its documents have 2 rows for this size instead of" in render_html(report)
