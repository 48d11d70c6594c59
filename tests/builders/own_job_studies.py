"""Builders of what is known of an own job: records with figures as wanted, and no documents."""

from itertools import combinations
from math import log

from batchmark.analysis.cold_start import cold_start_of
from batchmark.analysis.cost import price_basis
from batchmark.analysis.judging.noise import RowNoise, SideNoise
from batchmark.analysis.own_jobs.best import best_of
from batchmark.analysis.own_jobs.records import (
    Duel,
    JobFigure,
    JobSide,
    MetricFigure,
    OwnJobStudy,
    Place,
)
from batchmark.analysis.pooling import group_jobs
from batchmark.analysis.samples import Provenance
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate, Interval
from batchmark_job.result.document import Device
from tests.builders.own_jobs import IMAGE, NAME, SUITE, JobOn
from tests.builders.reports import report_of
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    PRICES,
    build_full_job,
    build_job,
    build_run,
)

GPU, CPU = "g5.xlarge", "c5.2xlarge"
WIDTH = 0.03  # of an interval to either side
# g5.xlarge is always the faster; by dollars c5.2xlarge is ahead at the smallest size alone.
TIMES = {
    GPU: {64: 8.0, 256: 10.0, 1024: 20.0, 4096: 65.0},
    CPU: {64: 16.0, 256: 36.0, 1024: 90.0, 4096: 340.0},
}


def estimate(value, *, jobs=MINIMUM_SAMPLES, width=WIDTH):
    if jobs < MINIMUM_SAMPLES:
        return Estimate(value=value, interval=None, interval_reason=f"{jobs} samples")
    return Estimate(
        value=value, interval=Interval(low=value * (1 - width), high=value * (1 + width))
    )


def metric(name, value, unit, *, higher=True, usd_per_unit=None, **known):
    return MetricFigure(
        metric=name,
        unit=unit,
        higher_is_better=higher,
        value=estimate(value, **known),
        values=24,
        jobs=MINIMUM_SAMPLES,
        usd_per_unit=usd_per_unit,
    )


def throughput(value, usd=None, unit="images/s", **known):
    """A metric, with the dollars of one image if there are any."""
    return metric("throughput", value, unit, usd_per_unit=usd and estimate(usd), **known)


def place(size=None, start=None):
    return Place(size=size, start=start)


def figure(at, seconds, *, jobs=MINIMUM_SAMPLES, usd_per_hour=None, record=None, **fields):
    """A side's jobs at a place; `seconds` None: a `problem` says why."""
    known = None if seconds is None else estimate(seconds, jobs=jobs)
    found = {
        "place": at,
        "seconds": known,
        "jobs": jobs if known else 0,
        "command_seconds": None if seconds is None else seconds - 0.5,
        "waiting_seconds": None if seconds is None else 42.0,
        "usd_per_job": known.scaled(usd_per_hour / 3600) if known and usd_per_hour else None,
        "checked_by": ("exit_code",),
        "metrics": (),
        "provenance": tuple(map(_provenance, record.jobs)) if record else (),
    }
    return JobFigure(**found | fields)


def side(target, times, *, at=place, jobs=MINIMUM_SAMPLES, priced=True, metrics=None, **fields):
    """A target's figures by size; `times` of None have the problem in `problems` by size."""
    record = target_record(target, jobs, **fields.pop("job", {}))
    price = price_basis(record, PRICES)
    problems = fields.pop("problems", {})
    each = fields.pop("each", {})
    figures = tuple(
        figure(
            at(size),
            seconds,
            jobs=jobs,
            usd_per_hour=price.usd_per_hour if priced else None,
            record=record,
            problem=problems.get(size),
            metrics=(metrics or {}).get(size, ()),
            **each,
        )
        for size, seconds in times.items()
    )
    found = {
        "target": record,
        "price": price,
        "figures": figures,
        "cold_start": cold_start_of(record, price),
        "bad_lines": (),
    }
    return JobSide(**found | fields)


def side_by_start(target, cold, warm, *, jobs=(MINIMUM_SAMPLES, MINIMUM_SAMPLES)):
    """A side at size 64 with so many seconds, of so many jobs, on cold and on warm instances."""
    found = [
        side(target, {64: seconds}, at=lambda size, start=start: place(size, start), jobs=number)
        for start, seconds, number in zip(("cold", "warm"), (cold, warm), jobs, strict=True)
    ]
    return found[0].model_copy(update={"figures": tuple(one.figures[0] for one in found)})


def target_record(target, jobs=1, *, build=build_full_job, **fields):
    environment = GPU_ENVIRONMENT if target[0] == "g" else CPU_ENVIRONMENT
    own = environment.model_copy(update={"instance_type": target, "image": "thumbnails:3"})
    fields = {"environment": own} | fields
    run = build_run(*(build(target, [], repeat=n + 1, suite=SUITE, **fields) for n in range(jobs)))
    ((found,),) = group_jobs(run).values()
    return found.record()


def study(*sides, axis="size", deadline_seconds=None, name=NAME, shown=(), **fields):
    """With the duels and the best sides that follow of the intervals alone.

    `shown`: at which sizes jobs would have shown a small difference.
    """
    places = dict.fromkeys(figure.place for one in sides for figure in one.figures)
    duels = tuple(
        duel for at in places for duel in _duels(sides, at, 0.05 if at.size in shown else 0.2)
    )
    found = {
        "name": name,
        "suite": f"job-{name}",
        "axis": axis,
        "deadline_seconds": deadline_seconds,
        "sides": sides,
        "duels": duels,
        "best": best_of(sides, duels, deadline_seconds),
    }
    return OwnJobStudy(**found | fields)


def sides_at_64(gpu, cpu, **fields):
    return side(GPU, {64: gpu}, **fields), side(CPU, {64: cpu}, **fields)


def two_sides(times=None, **fields):
    return study(*(side(name, of) for name, of in (times or TIMES).items()), **fields)


def telling(gpu, cpu, **fields):
    """A study at one size, whose sides tell these metrics."""
    sides = side(GPU, {64: 8.0}, metrics={64: gpu}), side(CPU, {64: 16.0}, metrics={64: cpu})
    return study(*sides, **fields)


def own_job_report(*studies, jobs=(), **fields):
    """A report of these studies, and of the pairs of some jobs."""
    return report_of(build_run(*jobs)).model_copy(
        update={"notices": (), "studies": {"own_jobs": studies}} | fields
    )


def on_laptop(target, times, **fields):
    """A side whose jobs ran on a laptop's CPU."""
    job = {"build": build_job, "environment": LAPTOP_ENVIRONMENT, "actual_device": Device.CPU}
    return side(target, times, job=job, **fields)


def _provenance(job):
    return Provenance(**job.model_dump(include=set(Provenance.model_fields)))


def _figures(sides, at):
    found = [(one, figure) for one in sides for figure in one.figures if figure.place == at]
    return [(one, figure) for one, figure in found if figure.seconds]


def _duels(sides, at, smallest):
    for (one, first), (other, second) in combinations(_figures(sides, at), 2):
        names = (one.target.target, other.target.target)
        yield _duel(at, names, None, first.seconds, second.seconds, smallest)
        for ours in first.metrics:
            for theirs in second.metrics:
                if ours.told == theirs.told:
                    values = (theirs.value, ours.value)
                    values = values[:: 1 if ours.higher_is_better else -1]
                    yield _duel(at, names, ours, *values, smallest)


def _duel(at, names, told, ours, theirs, smallest):
    """Of times: the less, the better."""
    ratio = theirs.value / ours.value
    known = ours.interval and theirs.interval
    found = estimate(ratio, width=2 * WIDTH) if known else estimate(ratio, jobs=1)
    better = None
    if found.interval and not found.interval.low <= 1 <= found.interval.high:
        better = names[0] if ratio > 1 else names[1]
    quiet = SideNoise(floor=0.02, degrees=5, source="repeats")
    note = None if better else "not known yet: equal jobs may differ by up to 9.1 %"
    noise = RowNoise(
        lead=log(ratio),
        gpu=quiet,
        cpu=quiet,
        floor=0.02,
        smallest_detectable_change=smallest if known else 9.0,
        critical_change=0.04,
        source="repeats",
        note=note,
    )
    return Duel(
        place=at,
        metric=told and told.metric,
        unit=told and told.unit,
        higher_is_better=told and told.higher_is_better,
        first=names[0],
        second=names[1],
        better=better,
        ratio=found,
        noise=noise,
    )


def own_jobs_of(target, times, repeats=MINIMUM_SAMPLES):
    """Collected jobs, one for each size and repeat."""
    side = JobOn(target, image=f"{IMAGE}:3", metrics=())
    for number, (size, seconds) in enumerate(times.items()):
        for repeat in range(1, repeats + 1):
            taken = seconds * (1 + 0.004 * ((repeat * 7 + number) % 5 - 2))
            yield side.job(size, repeat, start=None, seconds=taken)
