"""Shows what past runs cost by month and target, and forecasts what scheduled runs will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from batchmark.core import formatting
from batchmark.core.names import run_name, target_order
from batchmark.report.words import NO_DOLLARS, extent
from batchmark.runs.spending import MonthSpending


@dataclass(frozen=True)
class Month:
    """A month's spending, with job costs by target where known."""

    spending: MonthSpending
    by_target: dict[str, float | None]

    @property
    def usd(self) -> str:
        return _spent(float(self.spending.exact_usd))

    @property
    def runs(self) -> str:
        runs = self.spending.runs.values()
        text = f"{formatting.count(len(runs) - len(self.unfinished), 'run')} finished"
        if self.unfinished:
            text += f", {len(self.unfinished)} not finished"
        if any(run.reserved_usd != 0 for run in runs if not run.finished):
            text += (
                ", counted at the most that they can cost; if one was stopped, clear its task "
                "collect_results to record its actual cost"
            )
        return text

    @property
    def unfinished(self) -> list[tuple[str, str]]:
        """The ids and names of unfinished runs."""
        return [
            (run.run_id, run_name(run.run_id, formatting.moment(run.planned_at), "planned"))
            for run in self.spending.runs.values()
            if not run.finished
        ]

    @property
    def targets(self) -> list[tuple[str, str]]:
        return [
            (name, "not known" if usd is None else _spent(usd))
            for name, usd in sorted(self.by_target.items(), key=lambda one: target_order(one[0]))
        ]

    @property
    def problems(self) -> list[str]:
        unknown = (*self.spending.unreadable, *self.spending.unpriced)
        return [f"missing from the sum, or only partly in it: {key}" for key in unknown]


@dataclass(frozen=True)
class Forecast:
    """A cost forecast for next month's scheduled runs, based on the latest runs."""

    what: str  # a DAG's id, or a user's own job
    runs: int | None  # scheduled next month; None if Airflow has no readable schedule
    paused: bool
    recent_usd: Sequence[float] = ()  # of the latest settled runs
    most_usd: float | None = None  # the most that a run can cost; used without recent_usd
    on_top_usd: Sequence[float] = ()  # for boot and idling, at least and most; used with recent_usd

    @property
    def text(self) -> str:
        if self.runs is None:
            return f"{self.what} has no readable schedule, so next month's cost is not known."
        if self.paused:
            return f"{self.what} is paused: its schedule will cost nothing."
        times = formatting.count(self.runs, "scheduled run")
        if not self.recent_usd:
            costs = "; the cost per run is not known yet: the first run will show it"
            if self.most_usd is not None:
                each, every = map(formatting.usd, (self.most_usd, self.runs * self.most_usd))
                costs = (
                    f", {every} at most ({each} each); the page Costs goes by what runs did cost"
                )
            return f"{times} of {self.what} next month{costs}."
        latest = formatting.count(len(self.recent_usd), "run")
        if not any(self.recent_usd):
            return f"{times} of {self.what} next month; the latest {latest} cost nothing."
        one = median(self.recent_usd)
        span = extent(self.recent_usd, formatting.usd)
        each = " each" if len(self.recent_usd) > 1 else ""
        return (
            f"{times} of {self.what} next month, about {formatting.usd(self.runs * one)}: the "
            f"latest {latest} cost {span}{each}.{self._bill(self.runs, one)}"
        )

    def _bill(self, runs: int, run_usd: float) -> str:
        if not self.on_top_usd:
            return ""
        usd = extent((runs * (run_usd + each) for each in self.on_top_usd), formatting.usd)
        return f" With boot and idling of one instance of each target and run: {usd}."


def _spent(usd: float) -> str:
    return formatting.usd(usd) if usd else NO_DOLLARS


def summary(months: Sequence[Month]) -> str:
    if not months:
        return "No run has been recorded yet, so nothing has been spent."
    newest = months[0]
    return f"{newest.spending.month}: {newest.usd}. {newest.runs}."
