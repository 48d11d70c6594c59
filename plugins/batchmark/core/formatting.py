"""Formats figures with no more digits than their confidence intervals support.

Figures of similar size shown side by side are rounded to the same digit, the finest that any of
them needs. Otherwise, 1.9 could appear next to a smaller value shown as 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from batchmark.core.suites import NO_DTYPE
from batchmark_job.result.own_job import BETTER, METRIC, UNIT
from batchmark_job.result.values import Parameter

if TYPE_CHECKING:
    from datetime import datetime

    from batchmark.core.intervals import Estimate, Interval

Others: TypeAlias = "Iterable[Estimate | None]"  # figures beside one, which may be among them
MOST_DIGITS = 4  # judgment: nobody needs more, however narrow the interval
FEWEST_DIGITS = 2  # rounded to one digit, 1.5 would be a third off
ANY_DIGITS = Context(prec=700)  # enough for any float in full
FAR_APART = 10.0  # a factor: figures that differ by it look different to two digits
TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
)
OF_A_METRIC = {METRIC, UNIT, BETTER}
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Figure(NamedTuple):
    """A formatted value and its formatted interval, which is empty if the value has none."""

    value: str
    interval: str

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".rstrip()


def time(estimate: Estimate, beside: Others = ()) -> Figure:
    """Format a duration in seconds in a suitable unit."""
    scale, unit = _time_unit(estimate.value)
    figure = _figure(estimate, beside, 3, scale=scale)
    return Figure(f"{figure.value} {unit}", figure.interval)


def factor(estimate: Estimate, beside: Others = ()) -> Figure:
    """Format a ratio such as a speedup; if its interval excludes 1, so does the rounded one."""
    figure = number(estimate, beside)
    return Figure(f"{figure.value}{TIMES}", figure.interval)


def number(estimate: Estimate, beside: Others = ()) -> Figure:
    """Like `factor`, without the multiplication sign."""
    return _figure(estimate, beside, FEWEST_DIGITS, visibly_not=1.0)


def rate(estimate: Estimate, unit: str, beside: Others = ()) -> Figure:
    """Format a rate in units per second."""
    scale, prefix = _prefix(estimate.value)
    figure = _figure(estimate, beside, 3, scale=scale)
    return Figure(f"{figure.value} {prefix}{unit}/s", figure.interval)


def quantity(value: float, unit: str) -> str:
    """Format an amount without an interval to three digits, such as 1.25 GHz."""
    scale, prefix = _prefix(value)
    return f"{_rounded(value / scale, _last_digit(value / scale, 3))} {prefix}{unit}"


def amount(value: float, unit: str) -> str:
    """Format a value in an arbitrary unit to three digits, without SI prefixes."""
    return _with_unit(_rounded(value, _last_digit(value, 3)), unit)


def multiple(value: float) -> str:
    """Format a ratio without an interval to three digits."""
    return f"{_rounded(value, _last_digit(value, 3))}{TIMES}"


def percent(share: float) -> str:
    return f"{100 * share:.{0 if abs(share) >= 0.0995 else 1}f} %"


def difference_text(change: float) -> str:
    """Format how far apart figures can be: as a percentage below 100 %, otherwise as a factor."""
    return percent(change) if change < 1 else f"{two_digits(1 + change)}{TIMES}"


def noise(share: float) -> str:
    """Format a spread or noise level; 100 % or more (too few jobs) becomes "not known"."""
    return percent(share) if share < 1 else "not known"


def change(share: float) -> str:
    """Format a relative change, with a sign unless it rounds to 0."""
    text = percent(abs(share))
    sign = "+" if share > 0 else MINUS
    return text if text == percent(0) else sign + text


def memory(size_bytes: float) -> str:
    units = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    unit, name = next((pair for pair in units if size_bytes >= pair[0] / 2), units[-1])
    return f"{size_bytes / unit:.1f} {name}"


def size(value: float) -> str:
    """Format a size: whole numbers in full, interpolated ones to three digits."""
    return f"{value:.0f}" if value == round(value) else _rounded(value, _last_digit(value, 3))


def two_digits(value: float) -> str:
    """Format a rough figure to two digits."""
    return _rounded(value, _last_digit(value, 2))


def seconds(value: float) -> str:
    """Format a duration without an interval."""
    if value == 0:
        return "0 s"
    scale, unit = _time_unit(value)
    return f"{_rounded(value / scale, _last_digit(value / scale, 3))} {unit}"


def usd(value: float) -> str:
    """Format an amount in USD, rounding amounts below $1 to two significant digits."""
    if value == 0:
        return "$0"
    return f"${value:,.2f}" if value >= 1 else f"${_rounded(value, _last_digit(value, 2))}"


def value(estimate: Estimate, unit: str, beside: Others = ()) -> Figure:
    """Format a figure whose unit takes no SI prefixes."""
    figure = _figure(estimate, beside, 3)
    return Figure(_with_unit(figure.value, unit), figure.interval)


def usd_figure(estimate: Estimate, beside: Others = ()) -> Figure:
    """Format an amount in USD with the digits that its interval supports."""
    figure = _figure(estimate, beside, FEWEST_DIGITS)
    return Figure(f"${figure.value}", figure.interval)


def usd_per_hour(value: float) -> str:
    return f"${value:.4g} an hour"


def moment(at: datetime) -> str:
    """Format a time in UTC to the minute."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a number with its noun, such as '1 run' or '2 runs'."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def shortened_list(names: Sequence[str], most: int = 3) -> str:
    """List the first `most` names, and say how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def parameters(values: Mapping[str, Parameter]) -> str:
    """Format parameters; a metric of a user's own job is shown under its name, with its unit."""
    hidden = OF_A_METRIC if values.keys() >= OF_A_METRIC else ()
    shown = [f"{name} {value}" for name, value in values.items() if name not in hidden]
    if hidden:
        shown.append(f"{values[METRIC]} ({values[UNIT]})".removesuffix(" ()"))
    return ", ".join(shown)


def point(values: Mapping[str, Parameter], dtype: str | None) -> str:
    """Format a row's parameters and, if known, its number format."""
    return ", ".join(filter(None, (parameters(values), _known_dtype(dtype))))


def row(workload: str, values: Mapping[str, Parameter], dtype: str | None) -> str:
    """Format a row's name within its suite."""
    name = f"{workload} {parameters(values)}".strip()
    return ", ".join(filter(None, (name, _known_dtype(dtype))))


def _known_dtype(dtype: str | None) -> str | None:
    return None if dtype == NO_DTYPE else dtype


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit}".rstrip()


def _time_unit(value: float) -> tuple[float, str]:
    """Choose the unit that suits the rounded value: 0.98 ms, not 980 µs."""
    return next((unit for unit in TIME_UNITS if value >= 0.95 * unit[0]), TIME_UNITS[-1])


def _prefix(value: float) -> tuple[float, str]:
    return next((pair for pair in PREFIXES if abs(value) >= 0.9995 * pair[0]), PREFIXES[-1])


def _figure(
    estimate: Estimate,
    beside: Others,
    digits_without_interval: int,
    *,
    scale: float = 1.0,
    visibly_not: float | None = None,
) -> Figure:
    """Format an estimate in units of `scale`, rounded to the same digit as similar figures."""
    alike = [one.scaled(1 / scale) for one in _alike(estimate, beside)]
    last = min(_own_last_digit(one, digits_without_interval, visibly_not) for one in alike)
    shown = estimate.scaled(1 / scale)
    interval = ""
    if shown.interval:
        low, high = (_rounded(end, last) for end in (shown.interval.low, shown.interval.high))
        interval = f"[{low}, {high}]"
    return Figure(_rounded(shown.value, last), interval)


def _alike(estimate: Estimate, beside: Others) -> list[Estimate]:
    """Return the figures of similar size in ascending order, each under ten times the previous."""
    found: list[Estimate] = []
    known = [estimate, *(one for one in beside if one)]
    for one in sorted(known, key=lambda one: abs(one.value)):
        if found and abs(one.value) >= FAR_APART * abs(found[-1].value):
            if estimate in found:
                break
            found = []
        found.append(one)
    return found


def _own_last_digit(
    estimate: Estimate, digits_without_interval: int, visibly_not: float | None
) -> int:
    interval = estimate.interval
    if interval is None:
        return _last_digit(estimate.value, digits_without_interval)
    last = finest = _last_digit(estimate.value, MOST_DIGITS)
    half_width = (interval.high - interval.low) / 2
    if half_width > 0:
        coarsest = _last_digit(estimate.value, FEWEST_DIGITS)
        last = min(coarsest, max(last, _last_digit(half_width, 1)))
    if interval.low > 0:  # never round the lower end to zero
        last = min(last, _last_digit(interval.low, 1))
    if visibly_not is not None and not interval.low <= visibly_not <= interval.high:
        nearest = interval.low if interval.low > visibly_not else interval.high
        last = min(last, _last_digit(nearest - visibly_not, 1))
    while last > finest and _meets_an_end(estimate.value, interval, last):
        last -= 1
    return last


def _meets_an_end(value: float, interval: Interval, last_digit: int) -> bool:
    """Whether rounding alone makes the value equal to an end of its interval."""
    ends = (interval.low, interval.high)
    return any(
        value != end and _rounded(value, last_digit) == _rounded(end, last_digit) for end in ends
    )


def _last_digit(value: float, digits: int) -> int:
    """Return the power of ten of the last of `digits` significant digits."""
    return 1 - digits if value == 0 else math.floor(math.log10(abs(value))) - digits + 1


def _rounded(value: float, last_digit: int) -> str:
    """Round halves up, as readers do: `round` would turn 345 into 340."""
    if not math.isfinite(value):
        return f"{value:f}"
    last = Decimal(1).scaleb(last_digit)
    return f"{Decimal(repr(float(value))).quantize(last, ROUND_HALF_UP, ANY_DIGITS):f}"


def target_label(name: str, *, fell_back: bool) -> str:
    return f"{name} (ran on the CPU)" if fell_back else name
