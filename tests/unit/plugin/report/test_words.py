"""What a report says of prices and their day, and of what a call takes of the GPU alone."""

import io

import pytest
from rich.console import Console

from batchmark.analysis.comparison import compare
from batchmark.analysis.cost import run_costs
from batchmark.core.prices import load_prices
from batchmark.core.run import RunPlan
from batchmark.report import words
from batchmark.report.pages.published_page import published_page
from batchmark.report.pages.run_page import run_page
from batchmark.report.pages.table_pages import plan_page
from batchmark.report.tables import cost_blocks, worst_case_blocks
from batchmark.report.terminal.sections import print_blocks
from batchmark_job.result.document import MetricSummary, Phases
from tests.builders.reports import printed, report_of
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_row, build_run
from tests.builders.runs import PRICES as TABLE
from tests.builders.spending import worst_case

PRICES = TABLE.model_copy(update={"on_demand": {"c5.2xlarge": 0.34, "g5.12xlarge": 5.672}})


def pair_with(gpus, **changes):
    environment = GPU_ENVIRONMENT.model_copy(
        update={"gpu_count": gpus, "instance_type": "g5.12xlarge"}
    )
    rows = [build_row((0.1,) * 8)]
    gpu = build_job("g5.12xlarge", rows, environment=environment, **changes)
    (pair,) = compare(build_run(gpu, build_job("c5.2xlarge", rows)), PRICES).pairs
    return pair


def test_gpus_that_no_job_used_are_named_with_their_price():
    pair = pair_with(4)
    assert pair.gpu_price.usd_per_gpu_hour == pytest.approx(1.418)
    assert words.prices(pair) == (
        "g5.12xlarge: 5.672 USD per hour, On-Demand, 1.418 per GPU; "
        "c5.2xlarge: 0.34 USD per hour, On-Demand; a job holds 4 GPUs and uses one: with all of "
        "them at such work, efficiency is 4 times the one shown"
    )
    assert words.prices(pair_with(1)) == (
        "g5.12xlarge: 5.672 USD per hour, On-Demand; c5.2xlarge: 0.34 USD per hour, On-Demand"
    )


def test_one_of_a_thing_is_no_plural():
    (row,) = pair_with(1).rows
    side = row.gpu.model_copy(update={"outlier_samples": 1})
    assert "1 outlier, kept" in dict(words.side_facts(side))["samples"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("environment", ("A=1", "B=2"), "A=1, B=2"),
        *(("environment", nothing, None) for nothing in ((), "", None)),
        *(("threads", number, str(number)) for number in (0, 8)),
        ("memory_bytes", 2**30, "1.0 GiB"),
    ],
)
def test_a_machines_property_is_told_to_people(name, value, text):
    assert words.machine_property(name, value) == text


def call_facts(**phases):
    gpu = build_job("g5.xlarge", [build_row((20e-6,) * 8, phases=Phases(**phases))])
    cpu = build_job("c5.2xlarge", [build_row((0.1,) * 8)])
    (row,) = compare(build_run(gpu, cpu), PRICES).pairs[0].rows
    assert "a call" not in dict(words.side_facts(row.cpu))
    return dict(words.side_facts(row.gpu)).get("a call")


def test_launching_shows_beside_what_the_gpu_does():
    assert call_facts(kernel_seconds=4e-6, latency_seconds=31e-6) == (
        "4.00 µs of the GPU alone, 31.0 µs until the host knows"
    )
    assert call_facts(latency_seconds=31e-6) == (
        "not known of the GPU alone, 31.0 µs until the host knows"
    )
    assert call_facts() is None


@pytest.mark.parametrize(
    ("smallest", "said"),
    [
        (0.07, "; a change below 7.0 % would probably be missed"),
        (4.39, "; with so few jobs, the smallest detectable change is not known"),
    ],
)
def test_a_change_that_could_be_anything_has_no_figure(smallest, said):
    (row,) = pair_with(1).rows
    noise = row.noise.model_copy(update={"floor": 0.03, "smallest_detectable_change": smallest})
    assert words.noise(noise) == f"noise from job to job 3.0 % ({noise.source}){said}"


@pytest.mark.parametrize(
    ("least", "text"),
    [
        (12.0, "GPUUtilization 71.5 percent (12 to 98)"),
        (None, "GPUUtilization 71.5 percent (at most 98)"),
    ],
)
def test_a_metric_whose_least_value_nobody_told_says_no_range(least, text):
    summary = MetricSummary(
        metric="GPUUtilization", unit="percent", samples=16, minimum=least, mean=71.5, maximum=98
    )
    assert words.metric(summary) == text


RUN = build_run(*(build_job(name, [build_row((0.5,) * 8)]) for name in ("g5.xlarge", "c5.2xlarge")))
WORST = worst_case(prices_as_of=TABLE.as_of, prices_source=TABLE.source)


def told(blocks):
    console = Console(file=io.StringIO(), width=160)
    print_blocks(blocks, console)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        pytest.param(told(worst_case_blocks(WORST)), TABLE, id="worst case"),
        pytest.param(told(cost_blocks(run_costs(RUN, TABLE), TABLE)), TABLE, id="jobs' cost"),
        pytest.param(printed(run_page(report_of(RUN))), TABLE, id="run"),
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
    assert f"On-Demand prices in {TABLE.region} as of {TABLE.as_of}." in text


def test_jobs_without_dollars_are_not_said_to_have_prices_of_a_day():
    costs = run_costs(RUN, TABLE.model_copy(update={"on_demand": {}}))
    assert str(TABLE.as_of) not in told(cost_blocks(costs, TABLE)).split("Cost")[0]
    assert "Source:" not in told(cost_blocks(costs, TABLE))
