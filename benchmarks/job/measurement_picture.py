"""Draws docs/measurement.svg: a recorded row's calls in order, and why sampling stopped."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchmark_job.measuring.samples.sample_statistics import MedianInterval, median_interval
from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.document import Measurement, parse_document
from laptop.stack import ROOT

RECORDED = ROOT / "tests" / "data" / "recorded" / "cpu-2-cores-2026-11-21.json.gz"
ROW = ("gaussian_blur", 512)  # shows both outliers and a stop by precision
PICTURE = ROOT / "docs" / "measurement.svg"
BLUE, ORANGE, GREY = "#0b6bcb", "#c2410c", "#6b7280"


def main() -> None:
    document = parse_document(gzip.decompress(RECORDED.read_bytes()))
    row = next(
        measurement
        for measurement in document.measurements
        if (measurement.workload, measurement.parameters["size"]) == ROW
        and measurement.implementation
    )
    mpl.rcParams.update({"svg.hashsalt": "batchmark", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    calls, widths = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for axes, draw in ((calls, _draw_calls), (widths, _draw_widths)):
        axes.set_yscale("log")
        draw(axes, row)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.spines[["top", "right"]].set_visible(False)
    environment = document.environment
    figure.suptitle(
        f"{row.workload} {ROW[1]}² by {row.implementation.name}, "  # type: ignore[union-attr]
        f"{environment.compute_threads} threads of an {environment.cpu_model}, "
        f"{document.started_at:%d %B %Y}",
        fontsize=10,
    )
    figure.savefig(PICTURE, metadata={"Date": None})
    print(f"wrote {PICTURE.relative_to(ROOT)}")


def _draw_calls(axes: Axes, row: Measurement) -> None:
    """Draw the cold call, each sample, and the median so far with its interval, in ms."""
    samples = 1e3 * np.array(row.samples_seconds)
    calls = np.arange(1, len(samples) + 1)
    far = np.isin(calls - 1, row.outlier_samples)
    axes.plot(calls[~far], samples[~far], ".", color=GREY, label="sample")
    axes.plot(calls[far], samples[far], "x", color=ORANGE, label="flagged as far off, kept")
    so_far = _intervals(samples.tolist())
    medians, lows, highs = zip(*so_far.values(), strict=True)
    axes.plot(list(so_far), medians, color=BLUE, label="median so far")
    axes.fill_between(
        list(so_far),
        lows,
        highs,
        color=BLUE,
        alpha=0.25,
        lw=0,
        label=f"its {CONFIDENCE_TEXT} interval",
    )
    if row.cold_seconds:
        axes.plot([-6], [1e3 * row.cold_seconds], "D", color=ORANGE)
        axes.annotate(
            "cold call,\nkept apart",
            (-6, 1e3 * row.cold_seconds),
            (8, -8),
            textcoords="offset points",
        )
    axes.axvline(0, color=GREY, lw=0.8, ls=":")
    axes.set_ylabel("ms per call")
    axes.legend(loc="upper right", frameon=False, ncols=2)


def _draw_widths(axes: Axes, row: Measurement) -> None:
    samples = row.samples_seconds
    so_far = _intervals(samples)
    widths = [interval.relative_half_width for interval in so_far.values()]
    axes.plot(list(so_far), [100 * width for width in widths], color=BLUE)
    axes.axhline(1, color=GREY, lw=0.8, ls="--")
    axes.annotate("1 %: precise enough", (0, 1), (4, -11), textcoords="offset points")
    axes.plot([len(samples)], [100 * widths[-1]], "o", color=BLUE)
    axes.annotate(
        f"stop after {len(samples)} samples",
        (len(samples), 100 * widths[-1]),
        (0, 46),
        textcoords="offset points",
        ha="right",
    )
    axes.set_ylim(bottom=0.75)
    axes.set_ylabel("half-width, %")
    axes.set_xlabel(f"warm call ({row.warmup_calls} warm-up calls came before the first)")


def _intervals(samples: Sequence[float]) -> dict[int, MedianInterval]:
    """Compute the median's interval after each sample from the sixth on, keyed by sample count."""
    found = {count: median_interval(samples[:count]) for count in range(6, len(samples) + 1)}
    return {count: interval for count, interval in found.items() if interval}


if __name__ == "__main__":
    main()
