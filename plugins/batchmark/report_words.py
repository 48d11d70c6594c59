"""What a report says in words, the same on the page and on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark import figures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchmark.break_even import Breakeven
    from batchmark.crossover import Crossover
    from batchmark.estimate import Estimate
    from batchmark.ledger import Ledger
    from batchmark.noise import RowNoise
    from batchmark.report import ReportPair
    from batchmark.roofline import Roofline
    from batchmark.series import Side
    from batchmark_job.result import Implementation, MetricSummary, Trial

SPAN_NAMES = {"process": "Whole job, process", "batch_job": "Whole job, Batch"}
OPTIONS = {"spot": "Spot", "on_demand": "On-Demand"}
JOB_COSTS = "all attempts counted, each job at the price it was bought at"
CHEAPER = {
    "gpu_target_cheaper": "GPU target cheaper",
    "cpu_target_cheaper": "CPU target cheaper",
    "undecided": "undecided",
}
CROSSOVER_KINDS = ("warm, time", "warm, dollars", "one call, time", "one call, dollars")


def target(name: str, *, fell_back: bool) -> str:
    """A target's name, never without what it ran on instead."""
    return f"{name} (ran on the CPU)" if fell_back else name


def gpu_label(pair: ReportPair) -> str:
    return target(pair.gpu.target, fell_back=pair.cpu_fallback)


def noise(one: RowNoise) -> str:
    """The noise floor and the change that can be seen above it."""
    return (
        f"noise from job to job {figures.percent(one.floor)} ({one.source}); a change below "
        f"{figures.percent(one.smallest_detectable_change)} would likely go unseen"
    )


def calls_until_gpu_pays(calls: int, gpu: str) -> str:
    """Counted from point estimates, so without more digits than these carry."""
    number = "the first call" if calls == 1 else f"about {figures.about(calls)} calls"
    return f"From its process's start, {gpu} takes less time from {number} in one job on."


def cost_of_calls(cost: Estimate) -> str:
    interval = cost.interval
    span = f" [{figures.usd(interval.low)}, {figures.usd(interval.high)}]" if interval else ""
    return f"{figures.usd(cost.value)}{span} per million calls"


def prices(pair: ReportPair) -> str:
    """What each target's time is charged at; nothing of those that have no price."""
    text = "; ".join(
        f"{basis.instance_type}: {basis.usd_per_hour:g} USD per hour, On-Demand"
        for basis in (pair.gpu_price, pair.cpu_price)
        if basis.usd_per_hour is not None
    )
    if pair.spot_factor is None:
        return text
    return f"{text}; with both on Spot, efficiency is {pair.spot_factor:.2f} times the one shown"


def price_notes(pair: ReportPair) -> list[str]:
    """Why dollars are missing, and what those of the jobs rest on."""
    notes = [pair.gpu_price.note, pair.cpu_price.note, *(one.reason for one in pair.job_costs)]
    return list(dict.fromkeys(note for note in notes if note))


def implementation(one: Implementation) -> str:
    threads = f", {one.threads} thread{'' if one.threads == 1 else 's'}" if one.threads else ""
    return f"{one.name} {one.version}{threads}"


def roofline_share(one: Roofline | None) -> str | None:
    """The share of the ceiling that a row meets first, or of those that are known."""
    if one is None:
        return None
    shares = {"compute": one.compute_share, "bandwidth": one.memory_share}
    if one.bound:
        kept = "compute" if one.bound == "compute" else "bandwidth"
        shares = {kept: shares[kept]}
    known = [f"{figures.percent(share)} of {kind}" for kind, share in shares.items() if share]
    return ", ".join(known) or None


def side_facts(side: Side) -> Iterable[tuple[str, str]]:
    """What is known of one target's samples of a row, as name and value."""
    yield "code", implementation(side.implementation)
    if one := side.roofline:
        ceilings = (
            (one.flops_per_second, "flop", one.compute_share, one.compute_ceiling),
            (one.bytes_per_second, "B", one.memory_share, one.memory_ceiling),
        )
        for estimate, unit, share, ceiling in ceilings:
            if estimate:
                text = str(figures.rate(estimate, unit))
                if share and ceiling:
                    best = figures.quantity(ceiling, f"{unit}/s")
                    text += f", {figures.percent(share)} of the {best} measured in the same jobs"
                yield "arithmetic" if unit == "flop" else "memory traffic", text
        if one.bound:
            limit = "arithmetic" if one.bound == "compute" else "memory bandwidth"
            yield "limited by", f"{limit}, by its flops per byte"
    if side.items_per_second:
        images = figures.number(side.items_per_second)
        yield "throughput", f"{images.value} images/s {images.interval}".rstrip()
    if side.peak_memory_bytes:
        yield "peak memory", figures.memory(side.peak_memory_bytes)
    if side.energy_joules:
        text = f"{figures.quantity(side.energy_joules, 'J')} a call"
        if side.flops_per_joule:
            text += f", {figures.quantity(side.flops_per_joule, 'flop')} per joule"
        yield "energy of the GPU", text
    yield "samples", _samples(side)
    if side.steal_share is not None:
        yield "CPU time stolen", figures.percent(side.steal_share)
    if side.wait_share is not None:
        yield "threads waited for a CPU", figures.percent(side.wait_share)


def _samples(side: Side) -> str:
    parts = [str(side.samples)]
    if side.relative_spread is not None:
        parts.append(f"middle half within {figures.percent(side.relative_spread)} of the median")
    reasons = {
        "precise": "precise enough",
        "max_samples": "enough samples",
        "max_seconds": "time was up",
    }
    parts += [
        f"stopped as {reasons[name]}{f' in {jobs} jobs' if jobs > 1 else ''}"
        for name, jobs in side.stopping.items()
    ]
    if side.outlier_samples:
        parts.append(f"{side.outlier_samples} outliers, kept")
    if side.throttled_samples:
        parts.append(
            f"{side.throttled_samples} while slowed down, {side.throttled_left_out} left out"
        )
    if side.multimodal_jobs:
        parts.append("around more than one value")
    return ", ".join(parts)


def trial(one: Trial) -> str:
    """How a rival did, after its name."""
    if one.median_seconds is None:
        return f"{one.outcome}: {one.reason or 'no reason given'}"
    calls = f"{one.calls} call{'' if one.calls == 1 else 's'}"
    text = f"{one.outcome}: {figures.seconds(one.median_seconds)}, median of {calls}"
    return f"{text}; {one.reason}" if one.reason else text


def crossover_name(one: Crossover) -> str:
    fixed = f" {figures.parameters(one.parameters)}" if one.parameters else ""
    return f"{one.workload}{fixed}, {one.dtype}"


def crossover_sizes(one: Crossover) -> str:
    return f"{one.axis} {_sizes(one.sizes)}"


def crossover_figures(one: Crossover, pair: ReportPair) -> list[figures.Figure | None]:
    """In the order of CROSSOVER_KINDS; None where it is not known."""
    names = pair.gpu.target, pair.cpu.target
    kinds = (one.warm_seconds, one.warm_usd, one.cold_seconds, one.cold_usd)
    return [figures.break_even(kind, *names) if kind else None for kind in kinds]


def crossover_remarks(one: Crossover, pair: ReportPair) -> Iterable[str]:
    kinds = (one.warm_seconds, one.warm_usd, one.cold_seconds, one.cold_usd)
    for name, kind in zip(CROSSOVER_KINDS, kinds, strict=True):
        if kind is None:
            continue
        if not kind.monotonic:
            yield f"{name}: not monotonic; {_who_is_ahead(kind, pair)}"
        elif kind.undecided and (kind.gpu_ahead or kind.cpu_ahead):
            yield f"{name}: {_who_is_ahead(kind, pair)}"
    for name, kind in (("warm", one.warm_seconds), ("one call", one.cold_seconds)):
        if kind and kind.interval_reason:
            yield f"{name}: no interval, {kind.interval_reason}"
    if one.cold_reason:
        yield f"one call: {one.cold_reason}"


def _who_is_ahead(one: Breakeven, pair: ReportPair) -> str:
    sides = ((pair.gpu.target, one.gpu_ahead), (pair.cpu.target, one.cpu_ahead))
    parts = [f"{name} is ahead at {_sizes(sizes)}" for name, sizes in sides if sizes]
    if one.undecided:
        parts.append(f"undecided at {_sizes(one.undecided)}")
    return ", ".join(parts)


def _sizes(sizes: Iterable[float]) -> str:
    return ", ".join(map(figures.size, sizes))


def ledger_span(ledger: Ledger) -> str:
    return f"from submission to the end of {ledger.steps[-1].name.rpartition(', ')[2]}"


def metric(one: MetricSummary) -> str:
    """Mean and range."""
    return f"{one.metric} {one.mean:.4g} {one.unit} ({one.minimum:.4g} to {one.maximum:.4g})"
