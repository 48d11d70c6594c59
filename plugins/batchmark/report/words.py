"""Puts figures into words, for both the page and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.judging.noise import RowName, RowNoise
from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.break_even import BreakEven
from batchmark.analysis.pairs.compared_rows import TotalTime
from batchmark.analysis.pairs.crossover import Crossover
from batchmark.analysis.pairs.pair import Pair
from batchmark.analysis.pooling import TargetRecord
from batchmark.analysis.roofline import Roofline
from batchmark.analysis.samples import Keyed, Side
from batchmark.analysis.study import Studied
from batchmark.core import formatting, suites
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate
from batchmark_job.result.document import Device, Implementation, MetricSummary, Trial

if TYPE_CHECKING:
    from batchmark.report.model import Report

NOT_KNOWN = "not known yet"
NO_DIFFERENCE = "no difference"
AGAIN = "Fix that, then run it again."  # if no answer could be drawn from the results
AHEAD = {Measure.TIME: ("faster", "slower"), Measure.DOLLARS: ("cheaper", "dearer")}
NOT_COMPARABLE = "not comparable"  # because both sides ran on the same CPU
NO_DOLLARS = "no\N{NO-BREAK SPACE}dollars"
IMAGE_RATE = "images/s"
CALLS, JOB = "million calls", "job"  # for which dollars are given
SPAN_NAMES = {"process": "Whole job, process", "batch_job": "Whole job, Batch"}
OPTIONS = {"spot": "Spot", "on_demand": "On-Demand"}
JOB_COSTS = "container time of all attempts, each at its Spot or On-Demand price"
CHEAPER = {
    "gpu_target_cheaper": "GPU target cheaper",
    "cpu_target_cheaper": "CPU target cheaper",
    "undecided": NOT_KNOWN,
}
CROSSOVER_KINDS = ("warm, time", "warm, dollars", "one call, time", "one call, dollars")
OF_OWN_JOBS = ("time", "dollars")  # crossovers: each of their rows is a whole job


def row_label(row: Keyed) -> str:
    return f"{row.workload} {row_details(row)}".rstrip()


def row_details(row: Keyed) -> str:
    return formatting.point(row.parameters, row.dtype)


def is_own_job(pair: Pair) -> bool:
    return suites.is_own_job(pair.suite)


def gpu_label(pair: Pair) -> str:
    return formatting.target_label(pair.gpu.target, fell_back=pair.cpu_fallback)


def measured_target(target: TargetRecord) -> str:
    fell_back = target.device == "cuda" and target.actual_device is Device.CPU
    return formatting.target_label(target.target, fell_back=fell_back)


def is_simulated(target: TargetRecord) -> bool:
    """Return whether a target's GPUs were simulated, judging by the GPU model's name."""
    model = target.environment.gpu_model if target.environment else None
    return (model or "").startswith("simulated")


def target_and_gpu(target: TargetRecord) -> str:
    environment = target.environment
    model = f", {environment.gpu_model}" if environment and environment.gpu_model else ""
    return f"{measured_target(target)}{model}"


def whole_jobs_speedup(total: TotalTime) -> formatting.Figure | None:
    """Return the speedup of whole jobs, or 'not known yet'; None if they can't be compared."""
    if total.speedup and not total.speedup.interval:
        return formatting.Figure(NOT_KNOWN, "")
    return formatting.factor(total.speedup) if total.speedup else None


def noise(noise: RowNoise) -> str:
    """Describe the noise floor and the smallest change that can be detected above it."""
    floor = f"noise from job to job {formatting.noise(noise.floor)} ({noise.source})"
    if noise.smallest_detectable_change >= 1:
        return f"{floor}; with so few jobs, the smallest detectable change is not known"
    smallest = formatting.noise(noise.smallest_detectable_change)
    return f"{floor}; a change below {smallest} would probably be missed"


def calls_until_gpu_pays(calls: int, gpu: str) -> str:
    """Say how many calls it takes for the GPU to pay off, rounded because it's a point estimate."""
    number = "the first call" if calls == 1 else f"about {formatting.two_digits(calls)} calls"
    return f"Including process start, {gpu} takes less time from {number} onward in a single job."


def cost_of_row(cost: Estimate, *, own_job: bool) -> str:
    """Describe the cost of a row: of a million calls or, for a user's own job, of one job."""
    return cost_per(cost, JOB if own_job else CALLS)


def cost_per(cost: Estimate, unit: str) -> str:
    interval = cost.interval
    span = f" [{formatting.usd(interval.low)}, {formatting.usd(interval.high)}]" if interval else ""
    return f"{formatting.usd(cost.value)}{span} per {unit}"


def prices(pair: Pair) -> str:
    """Describe each known hourly price, and how idle GPUs or Spot prices affect the efficiency."""
    parts = []
    for basis in (pair.gpu_price, pair.cpu_price):
        if basis.usd_per_hour is not None:
            per_gpu = basis.usd_per_gpu_hour if basis.idle_gpus else None
            share = "" if per_gpu is None else f", {per_gpu:g} per GPU"
            price = f"{basis.usd_per_hour:g} USD per hour, On-Demand{share}"
            parts.append(f"{basis.instance_type}: {price}")
    if parts and pair.gpu_price.idle_gpus and not is_own_job(pair):
        parts.append(
            f"a job holds {pair.gpu_price.gpus} GPUs and uses one: with all of them at such work, "
            f"efficiency is {pair.gpu_price.gpus} times the one shown"
        )
    if pair.spot_factor is not None:
        parts.append(f"with both on Spot, efficiency is {pair.spot_factor:.2f} times the one shown")
    return "; ".join(parts)


def on_demand(basis: PriceBasis, of: str) -> str:
    """Describe the hourly On-Demand price; empty if unknown."""
    if not basis.usd_per_hour:
        return ""
    return f"{basis.instance_type}: {basis.usd_per_hour} USD per hour for {of}, On-Demand."


def extent(amounts: Iterable[float], told: Callable[[float], str]) -> str:
    """Format the range from smallest to largest, or one value if both look the same."""
    known = list(amounts)
    return " to ".join(dict.fromkeys(map(told, (min(known), max(known)))))


def suites_and_targets(studied: Iterable[Studied]) -> str:
    """Name the studies' suites and targets in one line."""
    found = list(studied)
    names = ((one.suite for one in found), (one.target.target for one in found))
    return ": ".join(formatting.shortened_list(list(dict.fromkeys(one)), most=1) for one in names)


def machine_property(name: str, value: object) -> str | None:
    """Format an environment property; None if it has no value."""
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or None
    if isinstance(value, int) and name.endswith("_bytes"):
        return formatting.memory(value)
    return None if value in (None, "") else str(value)


def outside_ec2(targets: Iterable[TargetRecord]) -> bool:
    """Return whether all jobs ran on machines outside EC2."""
    types = [one.environment.instance_type for one in targets if one.environment]
    return bool(types) and not any(types)


def price_cautions(report: Report) -> list[str]:
    """List the prices' limitations, if any prices were used."""
    if outside_ec2(report.targets):
        return []
    found = (report.prices.staleness(report.created_at), *report.prices.all_notes)
    return [note for note in found if note]


def price_notes(pair: Pair) -> list[str]:
    """Say why dollars are missing, and what the jobs' costs are based on."""
    if outside_ec2((pair.gpu, pair.cpu)):
        return []  # the run's cost says so
    notes = [pair.gpu_price.note, pair.cpu_price.note, *(cost.reason for cost in pair.job_costs)]
    return list(dict.fromkeys(note for note in notes if note))


def implementation(code: Implementation) -> str:
    threads = f", {formatting.count(code.threads, 'thread')}" if code.threads else ""
    return f"{code.name} {code.version}{threads}"


def roofline_share(roofline: Roofline | None) -> str | None:
    """Format a row's share of the ceiling that limits it, or of each known ceiling."""
    if roofline is None:
        return None
    shares = {"compute": roofline.compute_share, "bandwidth": roofline.memory_share}
    if roofline.bound:
        kept = "compute" if roofline.bound == "compute" else "bandwidth"
        shares = {kept: shares[kept]}
    known = [f"{formatting.percent(share)} of {kind}" for kind, share in shares.items() if share]
    return ", ".join(known) or None


def has_intervals(pair: Pair) -> bool:
    """Return whether any median in the pair's rows has an interval."""
    return any(side.median_seconds.interval for row in pair.rows for side in (row.gpu, row.cpu))


def why_some_have_no_interval(pair: Pair) -> str | None:
    """Say in one sentence why some medians lack an interval; None if every median has one."""
    medians = (side.median_seconds for row in pair.rows for side in (row.gpu, row.cpu))
    if all(median.interval for median in medians):
        return None
    return f"A median of fewer than {MINIMUM_SAMPLES} samples has no interval."


def side_facts(side: Side, other: Side | None = None) -> Iterable[tuple[str, str]]:
    """Yield a target's figures for a row as names and values, rounded to match those of `other`."""
    yield "code", implementation(side.implementation)
    if side.roofline:
        yield from _rates(side.roofline, other.roofline if other else None)
    if side.latency_seconds:
        alone = side.kernel_seconds and formatting.quantity(side.kernel_seconds, "s")
        known = formatting.quantity(side.latency_seconds, "s")
        yield "a call", f"{alone or 'not known'} of the GPU alone, {known} until the host knows"
    if side.items_per_second:
        images = formatting.number(
            side.items_per_second, [other.items_per_second if other else None]
        )
        yield "throughput", f"{images.value} {IMAGE_RATE} {images.interval}".rstrip()
    if side.peak_memory_bytes:
        yield "peak memory", formatting.memory(side.peak_memory_bytes)
    if side.energy_joules:
        text = f"{formatting.quantity(side.energy_joules, 'J')} a call"
        if side.flops_per_joule:
            text += f", {formatting.quantity(side.flops_per_joule, 'flop')} per joule"
        yield "energy of the GPU", text
    yield "samples", _samples(side)
    if side.steal_share is not None:
        yield "CPU time stolen", formatting.percent(side.steal_share)
    if side.wait_share is not None:
        yield "threads waited for a CPU", formatting.percent(side.wait_share)


def _rates(roofline: Roofline, other: Roofline | None) -> Iterable[tuple[str, str]]:
    rates = (
        ("arithmetic", "flop", roofline.flops_per_second),
        ("memory traffic", "B", roofline.bytes_per_second),
    )
    others = (other.flops_per_second, other.bytes_per_second) if other else (None, None)
    shares = (roofline.compute_share, roofline.memory_share)
    ceilings = (roofline.compute_ceiling, roofline.memory_ceiling)
    for (name, unit, estimate), beside, share, ceiling in zip(
        rates, others, shares, ceilings, strict=True
    ):
        if estimate:
            text = str(formatting.rate(estimate, unit, [beside]))
            if share and ceiling:
                best = formatting.quantity(ceiling, f"{unit}/s")
                text += f", {formatting.percent(share)} of the {best} measured in the same jobs"
            yield name, text
    if roofline.bound:
        limit = "arithmetic" if roofline.bound == "compute" else "memory bandwidth"
        yield "limited by", f"{limit}, by its flops per byte"


def _samples(side: Side) -> str:
    parts = [str(side.samples)]
    if side.relative_spread is not None:
        parts.append(f"middle half within {formatting.percent(side.relative_spread)} of the median")
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
        parts.append(f"{formatting.count(side.outlier_samples, 'outlier')}, kept")
    if side.throttled_samples:
        parts.append(
            f"{side.throttled_samples} while slowed down, {side.throttled_left_out} left out"
        )
    if side.multimodal_jobs:
        parts.append("around more than one value")
    return ", ".join(parts)


def trial(trial: Trial) -> str:
    if trial.median_seconds is None:
        return f"{trial.outcome}: {trial.reason or 'no reason given'}"
    calls = formatting.count(trial.calls, "call")
    text = f"{trial.outcome}: {formatting.seconds(trial.median_seconds)}, median of {calls}"
    return f"{text}; {trial.reason}" if trial.reason else text


def row_name(row: Crossover | RowName) -> str:
    return formatting.row(row.workload, row.parameters, row.dtype)


def crossover_figures(crossover: Crossover, pair: Pair) -> list[str]:
    """Say where a crossover's targets break even, for each measure."""
    names = pair.gpu.target, pair.cpu.target
    return [f"{kind} {break_even(found, *names)}" for kind, found in _by_kind(crossover, pair)]


def _by_kind(crossover: Crossover, pair: Pair) -> Iterator[tuple[str, BreakEven]]:
    names = OF_OWN_JOBS if is_own_job(pair) else CROSSOVER_KINDS
    kinds = (crossover.warm_seconds, crossover.warm_usd, crossover.cold_seconds, crossover.cold_usd)
    return ((name, kind) for name, kind in zip(names, kinds, strict=False) if kind)


def crossover_remarks(crossover: Crossover, pair: Pair) -> Iterable[str]:
    for name, found in _by_kind(crossover, pair):
        if not found.monotonic:
            yield f"{name}: not monotonic; {_who_is_ahead(found, pair)}"
        elif found.undecided and (found.gpu_ahead or found.cpu_ahead):
            yield f"{name}: {_who_is_ahead(found, pair)}"
    spans = ("a job" if is_own_job(pair) else "warm", "one call")
    for name, kind in zip(spans, (crossover.warm_seconds, crossover.cold_seconds), strict=True):
        if kind and kind.interval_reason:
            yield f"{name}: no interval, {kind.interval_reason}"
    if crossover.cold_reason:
        yield f"one call: {crossover.cold_reason}"


def _who_is_ahead(found: BreakEven, pair: Pair) -> str:
    sides = ((pair.gpu.target, found.gpu_ahead), (pair.cpu.target, found.cpu_ahead))
    parts = [f"{name} is ahead at {crossover_sizes(sizes)}" for name, sizes in sides if sizes]
    if found.undecided:
        parts.append(f"{NOT_KNOWN} at {crossover_sizes(found.undecided)}")
    return ", ".join(parts)


def crossover_sizes(sizes: Iterable[float]) -> str:
    return ", ".join(map(formatting.size, sizes))


def cold_start_span(start: ColdStart) -> str:
    first, last = start.steps[0].name.partition(", ")[0], start.steps[-1].name.rpartition(", ")[2]
    return f"from {first} to the end of {last}"


def metric(summary: MetricSummary) -> str:
    """Describe a metric's mean and range."""
    extent = f"at most {summary.maximum:.4g}"
    if summary.minimum is not None:
        extent = f"{summary.minimum:.4g} to {summary.maximum:.4g}"
    return f"{summary.metric} {summary.mean:.4g} {summary.unit} ({extent})"


def break_even(found: BreakEven, gpu: str, cpu: str) -> formatting.Figure:
    """Say where two targets break even, or that they don't within the measured sizes."""
    leader = f"{cpu} ahead from " if found.ahead_above == "cpu" else ""
    if found.outcome == "crossover":
        return _crossing(found, leader)
    if found.outcome == "undecided":
        text = NOT_KNOWN
        if found.size is not None:
            text += f"; by point estimates only, {leader}about {formatting.two_digits(found.size)}"
    elif found.undecided:
        name = gpu if found.outcome == "gpu_ahead" else cpu
        text = f"none seen: {name} is ahead wherever the result is known"
    elif found.outcome == "gpu_ahead":
        text = f"none: {gpu} is already ahead at the smallest size and stays ahead"
    else:
        text = f"none: {cpu} is ahead throughout"
    return formatting.Figure(text, "")


def _crossing(found: BreakEven, leader: str) -> formatting.Figure:
    measured = (*found.gpu_ahead, *found.cpu_ahead, *found.undecided)
    low, high = (None if end is None else formatting.size(end) for end in (found.low, found.high))
    low = low or f"below {formatting.size(min(measured))}"
    high = high or f"above {formatting.size(max(measured))}"
    if found.size is not None:
        value = formatting.size(found.size)
    else:
        value = f"at most {high}" if found.low is None else f"at least {low}"
    return formatting.Figure(f"{leader}{value}", f"[{low}, {high}]")
