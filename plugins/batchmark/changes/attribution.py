"""Groups the change points of many series into a few changes, with likely causes and costs.

Points belong to one change if they share a suite, target, metric and direction, and start at the
same or neighbouring runs. If they cover half of the target's rows, the environment changed; if not,
each workload is a separate change. Targets that changed at the same time with the same recorded
cause also form one change.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, pairwise
from statistics import fmean

from batchmark.changes.common_shifts import FEWEST_ROWS
from batchmark.changes.conditions import RunConditions, RunTargets, differences, row_name, versions
from batchmark.changes.metric import Metric
from batchmark.changes.records import (
    BETTER,
    WORSE,
    Cause,
    Change,
    ChangeKind,
    ChangePoint,
    Confirmation,
    SeriesKey,
)
from batchmark.core.suites import is_own_job
from batchmark_job.result.version import GivenVersion

SHARE_OF_ROWS = 0.5  # judgment: an environment moves most of its rows
HOURS_PER_MONTH = 730  # 365 days / 12, as AWS's own calculators have it
# In the order of pages and messages.
KINDS: tuple[ChangeKind, ...] = (*WORSE.values(), *BETTER.values())
# Other differences may make a run slower, but not its instance dearer.
CAUSES_OF_A_PRICE = {"instance type", "compute environment", "purchase option", "region"}
WITHOUT_USD: Mapping[Metric, str] = {
    Metric.NOISE: "noise by itself costs nothing",
    Metric.SPEEDUP: "a speedup involves two targets; see the costs of their times",
}


@dataclass
class _Group:
    """Change points that will form one change."""

    suite: str
    kind: ChangeKind
    workload: str | None
    environment: bool
    points: list[ChangePoint]
    causes: dict[str, tuple[Cause, ...]]  # by target
    speedups: list[ChangePoint] = field(default_factory=list)

    @property
    def shared(self) -> set[tuple[str, str | None, str | None]]:
        """The differences shared by all targets."""
        return set.intersection(
            *({cause.difference for cause in causes} for causes in self.causes.values())
        )


def group_changes(
    points: Iterable[ChangePoint],
    runs: RunTargets,
    *,
    measured: Iterable[SeriesKey],
    confirmations: Iterable[Confirmation] = (),
) -> tuple[Change, ...]:
    """Group change points into changes, sorted by kind (regressions first), environment and size.

    `runs` contains the runs from `runs_around`, though some can be missing. `measured` lists
    all series, to determine what share of a target's rows changed. Each confirmation is attached to
    the change that involves its series and run.
    """
    rows: dict[tuple[str, str], set[str]] = defaultdict(set)
    for series in measured:
        rows[series.suite, series.target].add(row_name(series))
    found = sorted(points, key=_place)
    explained = {point: times for point in found if (times := _explanation(point, found))}
    # Points that could belong to one change.
    buckets: dict[tuple[str, str, str | None, ChangeKind], list[ChangePoint]] = defaultdict(list)
    for point in found:
        if point not in explained:
            series = point.series
            buckets[series.suite, series.target, series.against, point.kind].append(point)
    groups: list[_Group] = []
    for (suite, target, *_), together in buckets.items():
        for cluster in _clusters(together):
            for group in _groups(cluster, len(rows[suite, target]), runs):
                _join(group, groups)
    _add_speedups(groups, explained)
    verdicts = tuple(confirmations)
    changes = [_change(group, runs, verdicts) for group in groups]
    return tuple(sorted(changes, key=_rank))


def runs_around(points: Iterable[ChangePoint]) -> set[str]:
    """Return the runs whose conditions `group_changes` compares."""
    return {run for point in points for run in (point.last_run_id, *_window(point))}


def are_near(one: ChangePoint, other: ChangePoint) -> bool:
    """Check whether two changes could have begun with the same run."""
    return one.first_run_id in _window(other) or other.first_run_id in _window(one)


def _window(point: ChangePoint) -> tuple[str, ...]:
    return tuple(dict.fromkeys((point.first_run_id, *point.near_run_ids)))


def _place(point: ChangePoint) -> tuple[datetime, str, str]:
    return point.first_recorded_at, point.series.target, row_name(point.series)


def _size(point: ChangePoint) -> float:
    return abs(math.log1p(point.change))


def _rank(change: Change) -> tuple[int, bool, float]:
    return KINDS.index(change.kind), not change.environment, -_size(change.points[0])


def _explanation(speedup: ChangePoint, points: Iterable[ChangePoint]) -> list[ChangePoint]:
    """Return the changes in GPU and CPU times that explain a change in a speedup.

    The GPU time moved in the same direction as the speedup (better or worse), and the CPU time
    moved in the opposite one.
    """
    if speedup.metric != Metric.SPEEDUP:
        return []
    own = speedup.series
    same_way = {own.target: True, own.against: False}
    return [
        point
        for point in points
        if point.metric == Metric.TIME
        and (series := point.series).target in same_way
        and series.suite == own.suite
        and row_name(series) == row_name(own)
        and (point.worse == speedup.worse) is same_way[series.target]
        and are_near(point, speedup)
    ]


def _clusters(points: Sequence[ChangePoint]) -> Iterator[list[ChangePoint]]:
    """Yield clusters of points, each around the most common first run of the remaining points."""
    rest = list(points)
    while rest:
        may_be = Counter(run for point in rest for run in _window(point))
        first = Counter(point.first_run_id for point in rest)
        run = max(may_be, key=lambda run: (may_be[run], first[run]))
        yield [point for point in rest if run in _window(point)]
        rest = [point for point in rest if run not in _window(point)]


def _groups(points: Sequence[ChangePoint], rows: int, runs: RunTargets) -> Iterator[_Group]:
    """Group a target's points of one kind into one environment group, or one group per workload."""
    kind, of_all = points[0].kind, points[0].series
    moved = len({row_name(point.series) for point in points})
    most = rows > 0 and moved >= max(FEWEST_ROWS, SHARE_OF_ROWS * rows)
    # All rows of a user's own job are one workload.
    environment = most and not is_own_job(of_all.suite)
    parts: dict[str | None, list[ChangePoint]] = defaultdict(list)
    for point in points:
        parts[None if environment else point.series.workload].append(point)
    for workload, part in parts.items():
        sides = [of_all.target, *([of_all.against] if of_all.against else [])]
        yield _Group(
            suite=of_all.suite,
            kind=kind,
            workload=workload,
            environment=environment,
            points=part,
            causes={target: _causes(part, target, runs) for target in sides},
        )


def _add_speedups(
    groups: Iterable[_Group], explained: Mapping[ChangePoint, Iterable[ChangePoint]]
) -> None:
    """Add each changed speedup to the groups with the changes in time that explain it."""
    group_of = {point: group for group in groups for point in group.points}
    for speedup, times in explained.items():
        for group in {id(group_of[time]): group_of[time] for time in times}.values():
            group.speedups.append(speedup)


def _join(group: _Group, groups: list[_Group]) -> None:
    """Add a group, merging it with another target's group if their time and cause match."""
    for other in groups:
        if (
            group.points[0].metric in {Metric.TIME, Metric.NOISE}
            and (group.suite, group.kind, group.workload, group.environment)
            == (other.suite, other.kind, other.workload, other.environment)
            and not group.causes.keys() & other.causes.keys()
            and group.shared & other.shared
            and any(are_near(one, two) for one in group.points for two in other.points)
        ):
            other.points += group.points
            other.causes |= group.causes
            return
    groups.append(group)


def _causes(points: Sequence[ChangePoint], target: str, runs: RunTargets) -> tuple[Cause, ...]:
    """List the differences at the run where most points begin, or the nearest run that has any.

    A version can change with every run, so nearby runs are searched for other differences as well.
    A row property, such as the implementation, must differ for half of the points.
    """
    named = Counter((point.last_run_id, point.first_run_id) for point in points).most_common()
    at_change = named[0][0]
    ids = set().union(*map(_window, points), *(pair for pair, _ in named))
    known = {run: runs[run, target] for run in ids if (run, target) in runs}
    order = sorted(known, key=lambda run: known[run].recorded_at)
    first = order.index(at_change[1]) if at_change[1] in known else 0
    nearest = sorted(pairwise(order), key=lambda pair: abs(order.index(pair[1]) - first))
    version: list[Cause] = []
    for before, after in chain([at_change], nearest):
        if before in known and after in known:
            run = None if after == at_change[1] else after
            found = [
                cause.model_copy(update={"run_id": run})
                for cause in _shared_differences(points, known[before], known[after])
            ]
            version = version or [one for one in found if one.name in GivenVersion.model_fields]
            if others := [one for one in found if one.name not in GivenVersion.model_fields]:
                return (*version, *others)
    return tuple(version)


def _shared_differences(
    points: Sequence[ChangePoint], before: RunConditions, after: RunConditions
) -> list[Cause]:
    """List the differences between two runs that apply to at least half of the points."""
    counts = Counter(
        cause
        for point in points
        for cause in differences(before, after, row_name(point.series))
        if point.metric != Metric.PRICE or cause.name in CAUSES_OF_A_PRICE
    )
    return [cause for cause, count in counts.items() if 2 * count >= len(points)]


def _change(group: _Group, runs: RunTargets, verdicts: Sequence[Confirmation]) -> Change:
    points = tuple(sorted(group.points, key=_size, reverse=True))
    windows: dict[SeriesKey, set[str]] = defaultdict(set)
    for point in points:
        windows[point.series].update(_window(point))
    prices = _prices(points, runs)
    usd, usd_reason = _usd_per_month(points, prices)
    version_before, version = versions(points[0], runs)
    return Change(
        kind=group.kind,
        points=points,
        environment=group.environment,
        causes=_named_causes(group),
        version_before=version_before,
        version=version,
        confirmations=tuple(one for one in verdicts if one.run_id in windows.get(one.series, ())),
        speedups=tuple(sorted(group.speedups, key=_size, reverse=True)),
        fell_back=tuple(target for target in group.causes if _fell_back(points, target, runs)),
        usd_per_hour={target: price for target, price in prices.items() if price is not None},
        usd_per_month=usd,
        usd_reason=usd_reason,
    )


def _fell_back(points: Sequence[ChangePoint], target: str, runs: RunTargets) -> bool:
    seen = (runs.get((point.first_run_id, target)) for point in points)
    return any(one.fell_back for one in seen if one)


def _named_causes(group: _Group) -> tuple[Cause, ...]:
    """List the causes shared by all targets, then each target's own, labelled with its name."""
    shared = group.shared
    first = next(iter(group.causes.values()))
    common = [cause for cause in first if cause.difference in shared]
    own = [
        cause.model_copy(update={"name": f"{cause.name} of {target}"})
        for target, causes in group.causes.items()
        for cause in causes
        if cause.difference not in shared
    ]
    return (*common, *own)


def _prices(points: Sequence[ChangePoint], runs: RunTargets) -> dict[str, float | None]:
    """Return each target's hourly price in USD at the change; None outside EC2 or if unrecorded."""
    prices: dict[str, float | None] = {}
    for point in points:
        target = point.series.target
        if prices.get(target) is not None or point.series.instance_type is None:
            prices.setdefault(target, None)
        elif point.metric == Metric.PRICE:
            prices[target] = point.after.median
        else:
            seen = (runs.get((run, target)) for run in (point.first_run_id, point.last_run_id))
            known = (one.usd_per_hour for one in seen if one)
            prices[target] = next((usd for usd in known if usd is not None), None)
    return prices


def _usd_per_month(
    points: Sequence[ChangePoint], prices: Mapping[str, float | None]
) -> tuple[float | None, str | None]:
    """Compute `Change.usd_per_month`, or explain why it is unknown."""
    metric = points[0].metric
    if reason := WITHOUT_USD.get(metric):
        return None, reason
    points = [point for point in points if not point.series.is_metric]
    if not points:
        return None, "the cost of a metric is unknown"
    usd = 0.0
    for target, price in prices.items():
        own = [point for point in points if point.series.target == target]
        if not own:
            continue
        if price is None:
            on_ec2 = any(point.series.instance_type for point in own)
            why = "the history has no price for it" if on_ec2 else "it did not run on EC2"
            return None, f"no cost for {target}: {why}"
        extra = (
            own[0].after.median - own[0].before.median
            if metric == Metric.PRICE
            else price * fmean(point.change for point in own)
        )
        usd += HOURS_PER_MONTH * extra
    return usd, None
