"""The table that others published, and how little two decimals and one run carry."""

import pytest

from batchmark.analysis.published import published_table
from batchmark.core.prices import load_prices


@pytest.fixture
def table():
    return published_table()


def by_row(table):
    return {(one.workload, *one.parameters.values()): one for one in table.rows}


def test_speedups_are_those_published_and_rounding_alone_leaves_33_to_101(table):
    for one in (*table.rows, table.total):
        assert one.cpu_seconds / one.gpu_seconds == pytest.approx(one.speedup, abs=0.006)
    assert by_row(table)["matmul", 5000].rounded == pytest.approx((33, 101))


def test_only_what_two_single_runs_can_carry_is_decided(table):
    rows = by_row(table)
    assert {name: one.winner() for name, one in rows.items()} == {
        ("matmul", 1000): "cpu",
        ("matmul", 5000): "gpu",
        ("matmul", 8000): "gpu",
        ("matmul", 10000): "gpu",
        ("convolutions", 2048, 1): "unknown",
        ("convolutions", 2048, 2): "gpu",
        ("convolutions", 4096, 1): "unknown",
        ("convolutions", 4096, 2): "gpu",
        ("gaussian_blur", 2048): "unknown",
    }
    # Rows with a defect are never judged, and decided ones have intervals without 1.
    assert rows["convolutions", 4096, 1] not in table.judged
    assert rows["matmul", 1000] not in table.judged
    assert len(table.judged) == 7
    for one in (*table.judged, table.total):
        interval = one.ratio.interval
        assert (interval.low > 1 or interval.high < 1) is (one.winner() != "unknown")


def test_dollars_are_at_the_price_tables_prices(table):
    prices = load_prices()
    assert table.price_factor(prices) == pytest.approx(1.008 / 2.448)
    assert table.usd(prices) == pytest.approx((10.13 * 1.008 + 3.03 * 2.448) / 3600)


def test_the_crossover_lies_between_the_sizes_that_are_decided(table):
    for factor in (1.0, table.price_factor(load_prices())):
        found = table.matmul_crossover(factor)
        assert (found.outcome, found.ahead_above) == ("crossover", "gpu")
        assert 1000 < found.low < found.high < 5000
