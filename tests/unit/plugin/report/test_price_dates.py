"""Whoever shows a price, or dollars made of one, says of which day it is and where it is from."""

import io

import pytest
from rich.console import Console

from batchmark.analysis.cost import run_costs
from batchmark.core.prices import load_prices
from batchmark.core.run import RunPlan, WorstCase
from batchmark.report.pages.published_page import published_page
from batchmark.report.pages.run_page import run_page
from batchmark.report.pages.table_pages import plan_page
from batchmark.report.tables import cost_blocks, worst_case_blocks
from batchmark.report.terminal.sections import print_blocks
from tests.builders.reports import printed, report_of
from tests.builders.runs import PRICES, build_job, build_row, build_run

RUN = build_run(*(build_job(name, [build_row((0.5,) * 8)]) for name in ("g5.xlarge", "c5.2xlarge")))
WORST = WorstCase(
    targets=(),
    usd=1.5,
    region=PRICES.region,
    prices_as_of=PRICES.as_of,
    prices_source=PRICES.source,
    notes=(),
)


def told(blocks):
    console = Console(file=io.StringIO(), width=160)
    print_blocks(blocks, console)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        pytest.param(told(worst_case_blocks(WORST)), PRICES, id="worst case"),
        pytest.param(told(cost_blocks(run_costs(RUN, PRICES), PRICES)), PRICES, id="jobs' cost"),
        pytest.param(printed(run_page(report_of(RUN))), PRICES, id="run"),
        pytest.param(printed(published_page()), load_prices(), id="published table"),
    ],
)
def test_dollars_stand_with_their_date_and_source(text, prices):
    assert "$" in text
    assert (
        f"rices in {prices.region} as of {prices.as_of}" in text or f"As of {prices.as_of}" in text
    )
    assert prices.source in " ".join(text.split())


def test_a_dry_run_names_the_day_of_its_prices():
    text = printed(plan_page(RunPlan(jobs=()), WORST, ()))
    assert f"On-Demand prices in {PRICES.region} as of {PRICES.as_of}." in text


def test_jobs_without_dollars_are_not_said_to_have_prices_of_a_day():
    costs = run_costs(RUN, PRICES.model_copy(update={"on_demand": {}}))
    assert str(PRICES.as_of) not in told(cost_blocks(costs, PRICES)).split("Cost")[0]
    assert "Source:" not in told(cost_blocks(costs, PRICES))
