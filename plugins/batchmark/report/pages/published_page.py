"""Builds the page for a table published by others; its title and a notice make that clear.

All ratios have two digits, because the underlying times support no more.
"""

from __future__ import annotations

from datetime import UTC, datetime, time
from functools import partial

from batchmark.analysis.pairs.answer import Measure, Winner
from batchmark.analysis.published import (
    HALF_A_CENTISECOND,
    NOISE,
    OTHERS,
    PublishedRow,
    PublishedTable,
    Times,
    published_table,
)
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.core.intervals import Estimate, Interval
from batchmark.core.prices import PriceTable, load_prices
from batchmark.report import blocks
from batchmark.report.answer import RunSummary
from batchmark.report.charts import draw
from batchmark.report.pairs.answer import QUESTION
from batchmark.report.size_charts import Point, SizeChart
from batchmark.report.words import AHEAD, NOT_KNOWN, extent

COLOURS: dict[frozenset[Winner], blocks.Colour] = {
    frozenset({"gpu"}): "gpu",
    frozenset({"cpu"}): "cpu",
    frozenset({"unknown"}): "unknown",
    frozenset({"gpu", "unknown"}): "gpu",
}


def published_page() -> blocks.Page:
    """Build the page for the published table that ships with Batchmark."""
    table, prices = published_table(), load_prices()
    factor = table.price_factor(prices)
    chart = _chart(table)
    return blocks.Page(
        "A table published by others",
        "",
        _screen(table, factor, prices),
        notices=[
            f"Not measured by Batchmark: {table.name}. Verdicts, intervals, dollars and the "
            "crossover are ours."
        ],
        sections=[
            blocks.Section(
                "sizes",
                "Time over size",
                [
                    *(blocks.Text(_crossover(table, factor, one), "summary") for one in Measure),
                    blocks.Charts("", [blocks.Chart(chart.title, partial(draw, chart))]),
                    blocks.Text(_not_drawn(table)),
                ],
            ),
            blocks.Section("rows", "All rows", [_rows(table, factor)]),
            blocks.Section("defects", "What is wrong with it", [blocks.Facts("", _defects(table))]),
            blocks.Section(
                "how", "How we computed", [blocks.Remarks([], _method(table, factor, prices))]
            ),
        ],
    )


def _rows(table: PublishedTable, factor: float) -> blocks.Table:
    cells = [_cells(row, factor) for row in table.rows]
    total = table.total
    seconds = (f"{total.cpu_seconds} s", f"{total.gpu_seconds} s")
    last = ("Total job time", *seconds, formatting.factor(total.ratio), _ratio(total.speedup))
    return blocks.Table(
        "",
        "Intervals of times are what rounding leaves open. Intervals of ratios add what two single "
        "runs may differ by.",
        (
            "Row",
            f"CPU, {table.cpu}",
            f"GPU, {table.gpu}",
            "CPU / GPU",
            "Published",
            "In time",
            "In dollars",
        ),
        [*cells, (*last, *_words(total, factor))],
        wide=True,
    )


def _method(table: PublishedTable, factor: float, prices: PriceTable) -> list[str]:
    gpu, cpu = (f"{name} at ${prices.on_demand[name]}" for name in (table.gpu, table.cpu))
    return [
        f"Dollars are times × On-Demand prices in {prices.region} as of {prices.as_of} "
        f"({prices.source}): {gpu} and {cpu} an hour. So a GPU that is "
        f"{formatting.two_digits(1 / factor)} times as fast costs the same.",
        "A row is decided by the rule of every Batchmark report: its ratio has to lie beyond what "
        "noise alone does between two single runs about which nothing else is known. The row whose "
        "time is start-up and the one that repeats another row's times are not judged.",
        "The crossover is given as the two sizes that it lies between with start-up counted: the "
        "table does not narrow it down further.",
    ]


def published_summary() -> RunSummary:
    """Build the table's entry in the list of all runs."""
    table, prices = published_table(), load_prices()
    (story,) = _screen(table, table.price_factor(prices), prices).stories
    (answer,) = story.answers
    return RunSummary(
        run_id=table.run_id,
        created_at=datetime.combine(table.read_on, time(), UTC),
        suites=(),
        gpus=(table.gpu,),
        cpus=(table.cpu,),
        verdict=answer.verdict,
        sentence=f"From a table {OTHERS}: {answer.sentence}",
        cost="not ours",
        worse=None,
        usd=None,
    )


def _screen(table: PublishedTable, factor: float, prices: PriceTable) -> blocks.FirstScreen:
    judged = table.judged
    ahead = " and ".join(
        f"{AHEAD[measure][0]} in {[row.winner(by) for row in judged].count('gpu')}"
        for measure, by in zip(Measure, (1.0, factor), strict=True)
    )
    rates = [formatting.usd_per_hour(prices.on_demand[name]) for name in (table.gpu, table.cpu)]
    answer = blocks.StudyAnswer(
        QUESTION,
        "Yes at large sizes",
        f"{table.gpu} against {table.cpu} is {ahead} of the {len(judged)} rows that can be judged.",
        [
            "Its CPU code was 2 to 17 times slower than plain library calls. Against those, only "
            "the large matrix products would still be decided.",
            "One run each, times with two decimals: by our rule two single runs may differ by up "
            f"to {_ratio(NOISE)}, so a smaller ratio decides nothing: more runs would tell.",
        ],
    )
    matrices = [
        _matrix(table, Measure.TIME, 1.0, "times"),
        _matrix(table, Measure.DOLLARS, factor, f"dollars at {' and '.join(rates)}"),
    ]
    return blocks.FirstScreen(
        [blocks.Story("answer", table.name, [answer], "", (), matrices=matrices)],
        [
            blocks.Line(
                "Has it changed?",
                "Not known. Two runs of the same code were published, and they disagree: the whole "
                f"job was {_ratio(table.total.speedup)} as fast (this table) and "
                f"{_ratio(table.repeated_speedup)}.",
                "defects",
            ),
            blocks.Line(
                "Can it be trusted?",
                "In its direction for large matrix products, not in its figures: "
                f"{len(_defects(table))} defects are named below.",
                "defects",
            ),
            blocks.Line(
                "What did it cost?",
                f"{formatting.usd(table.usd(prices))} for both jobs, at On-Demand prices of "
                f"{prices.as_of}; our calculation, time × hourly price.",
                "how",
            ),
        ],
    )


def _matrix(table: PublishedTable, measure: Measure, factor: float, amounts: str) -> blocks.Matrix:
    workloads = blocks.grouped((row.workload, row) for row in table.rows)
    return blocks.Matrix(
        measure,
        f"{table.gpu} against {table.cpu}; ratios are of {amounts}, CPU / GPU, over the decided "
        "rows, if any.",
        [table.gpu],
        [(name, [_cell(rows, measure, factor)]) for name, rows in workloads.items()],
    )


def _cell(rows: list[PublishedRow], measure: Measure, factor: float) -> blocks.Cell:
    judged = [row for row in rows if row.judged]
    winners = [row.winner(factor) for row in judged]
    counts = [
        (_word(winner, measure), winners.count(winner)) for winner in ("gpu", "cpu", "unknown")
    ]
    present = [(word, count) for word, count in counts if count]
    if len(present) == 1:
        word, note = present[0][0], ""
    else:
        (first, count), *others = present
        word = f"{first} in {count} of {len(winners)}"
        note = ", ".join(f"{other} in {number}" for other, number in others)
    decided = [row for row in judged if row.winner(factor) != "unknown"]
    ratios = [row.ratio.value * factor for row in decided or judged]
    span = extent(ratios, _ratio)
    return blocks.Cell(word, span, note, COLOURS.get(frozenset(winners), "both"))


def _crossover(table: PublishedTable, factor: float, measure: Measure) -> str:
    found = table.matmul_crossover(1.0 if measure == Measure.TIME else factor)
    ahead, _ = AHEAD[measure]
    low, high = found.cpu_ahead[-1], found.gpu_ahead[0]
    return (
        f"Matrix products become {ahead} at some size between {low:,.0f} and {high:,.0f}, "
        "including the GPU's start-up time."
    )


def _chart(table: PublishedTable) -> SizeChart:
    rows = [row for row in table.judged if row.workload == "matmul"]
    return SizeChart(
        "matmul, time over size",
        "size",
        {
            table.gpu: {
                float(row.parameters["size"]): Point(_rounded(row.gpu_seconds)) for row in rows
            },
            table.cpu: {
                float(row.parameters["size"]): Point(_rounded(row.cpu_seconds)) for row in rows
            },
        },
    )


def _not_drawn(table: PublishedTable) -> str:
    """Say why the chart omits a size that the crossover includes."""
    first = table.rows[0]
    return (
        f"Size {first.parameters['size']:,} is not drawn: the {first.gpu_seconds:g} s on "
        f"{table.gpu} are start-up time, not the product. The crossover includes it, because a "
        "single job pays for it."
    )


def _rounded(seconds: float) -> Estimate:
    low, high = seconds - HALF_A_CENTISECOND, seconds + HALF_A_CENTISECOND
    return Estimate(value=seconds, interval=Interval(low=low, high=high))


def _cells(row: PublishedRow, factor: float) -> tuple[Figure | str, ...]:
    defects = {
        None: "",
        "start-up": "start-up, not the product",
        "repeated": "the times of image 2048",
    }
    words = _words(row, factor) if row.judged else ("not judged", "not judged")
    sides = [_rounded(seconds) for seconds in (row.cpu_seconds, row.gpu_seconds)]
    return (
        Figure(f"{row.workload} {formatting.parameters(row.parameters)}", defects[row.defect]),
        *(formatting.time(side, sides) for side in sides),
        formatting.factor(row.ratio),
        _ratio(row.speedup),
        *words,
    )


def _ratio(value: float) -> str:
    return f"{formatting.two_digits(value)}{formatting.TIMES}"


def _words(times: Times, factor: float) -> tuple[str, str]:
    """Return the verdicts by time and by dollars."""
    return _word(times.winner(), Measure.TIME), _word(times.winner(factor), Measure.DOLLARS)


def _word(winner: Winner, measure: Measure) -> str:
    ahead, behind = AHEAD[measure]
    return {"gpu": ahead, "cpu": behind}.get(winner, NOT_KNOWN)


def _defects(table: PublishedTable) -> list[tuple[str, str]]:
    """List the table's defects, with the figures that show them."""
    first, second = table.rows[:2]
    low, high = second.rounded
    cpu = sum(row.cpu_seconds for row in table.rows)
    gpu = sum(row.gpu_seconds for row in table.rows)
    return [
        (
            "Start-up counted as work",
            f"The timer runs while inputs are drawn and CUDA starts: {first.gpu_seconds:g} s at "
            f"size {first.parameters['size']} are start-up, so that row says nothing about "
            "products.",
        ),
        (
            "Two decimals",
            f"{second.cpu_seconds:.2f} s / {second.gpu_seconds:.2f} s, published as "
            f"{_ratio(second.speedup)}, may be anything from {formatting.two_digits(low)} to "
            f"{_ratio(high)} by rounding alone.",
        ),
        (
            "A row twice",
            "Images of 4096² with batch 1 have the very times of 2048²: one of the two was never "
            "measured.",
        ),
        (
            "Rows and totals",
            f"The rows sum to {cpu:.2f} s and {gpu:.2f} s, the jobs took "
            f"{table.total.cpu_seconds:g} s and {table.total.gpu_seconds:g} s: what filled the "
            "rest is not explained.",
        ),
        (
            "Text and table disagree",
            f"The text calls the GPU 50 times slower at size {first.parameters['size']}; its times "
            f"say {formatting.two_digits(first.gpu_seconds / first.cpu_seconds)}.",
        ),
        (
            "No spread",
            f"One run, and a second one of the same code came to {_ratio(table.repeated_speedup)} "
            f"instead of {_ratio(table.total.speedup)} for the whole job.",
        ),
        (
            "The machine",
            f"It names 32 cores for both instances; {table.cpu} has 16 vCPUs.",
        ),
        (
            "A slow rival",
            "Its CPU code takes 2 to 17 times as long as plain library calls (measured by us on 2 "
            "idle cores: blur 0.41 against 0.024 s by OpenCV, convolutions 2.81 against 0.59 s, "
            "matmul 1000² 0.08 against 0.007 s and 5000² 1.71 against 0.78 s), which flatters the "
            "GPU by the same factor.",
        ),
    ]
