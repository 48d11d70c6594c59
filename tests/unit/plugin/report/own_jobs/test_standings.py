"""Which side is ahead at a place, and which places are the main ones."""

import pytest

from batchmark.report.own_jobs.standings import main_places
from tests.builders.own_job_studies import GPU, place, side, study


@pytest.mark.parametrize(("cold", "warm", "main"), [(6, 6, "warm"), (7, 6, "cold"), (5, 6, "warm")])
def test_the_main_start_is_that_of_the_most_jobs_and_of_two_the_warm_one(cold, warm, main):
    sides = [
        side(GPU, {64: 8.0}, at=lambda size, start=start: place(size, start), jobs=jobs)
        for start, jobs in (("cold", cold), ("warm", warm))
    ]
    figures = tuple(figure for one in sides for figure in one.figures)
    found = study(sides[0].model_copy(update={"figures": figures}))
    assert main_places(found) == [place(64, main)]
