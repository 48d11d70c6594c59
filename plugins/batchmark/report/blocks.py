"""Building blocks for all reports, rendered both on pages and in terminals.

Code for each kind of run states every fact just once, as a block; shared code renders the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias, TypeVar

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.pair import Pair
from batchmark.analysis.pooling import JobRecord
from batchmark.core.formatting import Figure, Others
from batchmark.core.intervals import Estimate
from batchmark.report.machines import JobLine, Machines

# Airflow reads every DAG file, and each task its own, with these blocks and hardly ever a chart.
if TYPE_CHECKING:
    from batchmark.report.charts import Scale, SizeChart

NOT_KNOWN = "Not known"  # starts the verdict when there is none
SHOWN_ROWS = 6  # of a change; the others are folded
Colour = Literal["gpu", "cpu", "both", "unknown"]
K = TypeVar("K")
T = TypeVar("T")
Form: TypeAlias = Callable[[Estimate, Others], Figure]  # formats a figure to match those beside it


class Link(NamedTuple):
    """Text that links to an address if that is relative or http(s), and plain text otherwise."""

    text: str
    address: str

    def __str__(self) -> str:
        return self.text


class Text(NamedTuple):
    """One or more sentences, with an optional link at the end; `style` is a CSS class."""

    text: str
    style: str = "meta"
    link: Link | None = None


class ComparedFigure(NamedTuple):
    """A figure rounded to the same last digit as those it is compared with in its column.

    It is compared with figures that have the same `among`; by default, with all of them. If there
    is no estimate, a dash is shown.
    """

    estimate: Estimate | None
    form: Form
    among: Hashable = None


ColumnValue: TypeAlias = Figure | ComparedFigure | str | int | None


class Table(NamedTuple):
    """Rows of figures or words; terminals leave out the columns in `on_page_alone`.

    On a narrow screen, a wide table becomes a list of cards and any other table scrolls. A table
    without a title appears directly below its section's title.
    """

    title: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Figure | Link | str]]
    folded: bool = False
    wide: bool = False
    on_page_alone: frozenset[str] = frozenset()  # headings

    @classmethod
    def of(
        cls,
        title: str,
        caption: str,
        items: Iterable[T],
        columns: Mapping[str, Callable[[T], ColumnValue]],
        *,
        without: Collection[str] = (),
        folded: bool = False,
        on_page_alone: frozenset[str] = frozenset(),
    ) -> Self:
        """Build a table with a row per item; `columns` maps headings to functions that make cells.

        A cell without a value shows a dash; columns in `without` are left out.
        """
        shown = {name: tell for name, tell in columns.items() if name not in without}
        kept = list(items)
        filled = [_column([tell(item) for item in kept]) for tell in shown.values()]
        rows = [list(row) for row in zip(*filled, strict=True)]
        return cls(title, caption, [*shown], rows, folded, on_page_alone=on_page_alone)


class Chart(NamedTuple):
    title: str
    draw: Callable[[], str]

    @property
    def svg(self) -> str:
        return self.draw()


class Charts(NamedTuple):
    """Charts, shown only on the page; tables contain the same figures."""

    caption: str
    charts: Sequence[Chart]


class SizeCharts(NamedTuple):
    """Charts of time and dollars by size, each with a table; shown only on the page."""

    charts: Sequence[SizeChart]


class Verdict(NamedTuple):
    verdict: str
    sentence: str


class Facts(NamedTuple):
    """Facts, each with a label; if untitled, they appear directly below the section's title."""

    title: str
    facts: Sequence[tuple[str, str]]


class Remarks(NamedTuple):
    """Cautions (`texts`) followed by other remarks (`notes`)."""

    texts: Sequence[str]
    notes: Sequence[str] = ()


class Lines(NamedTuple):
    """Lines from jobs' logs or files, each with a comment."""

    title: str
    lines: Sequence[tuple[str, str]]
    left_out: int = 0


class Printed(NamedTuple):
    """The last lines printed by a job, with an optional link to the rest."""

    title: str
    caption: str
    lines: Sequence[str]
    link: Link | None = None


class Traces(NamedTuple):
    """Jobs with their logs and results; `where` maps job ids to phrases such as "on 4 nodes"."""

    jobs: Sequence[JobRecord]
    where: Mapping[str, str] = MappingProxyType({})


class ColdStarts(NamedTuple):
    """Cold starts; `labels` maps targets to their displayed names."""

    starts: Sequence[ColdStart]
    labels: Mapping[str, str]
    on_ec2: bool


class Jobs(NamedTuple):
    """Jobs and their costs; unless `listed` is set, terminals only count the jobs per target."""

    jobs: Sequence[JobLine]
    listed: bool = False


class Comparison(NamedTuple):
    """A comparison between two targets, both of individual rows and of whole jobs."""

    pair: Pair

    @property
    def scale(self) -> Scale:
        from batchmark.report.charts import Scale

        return Scale(row.speedup for row in self.pair.rows)


class Uncompared(NamedTuple):
    """The rows that couldn't be compared between two targets, each with the reason."""

    pair: Pair


class HistoryChart(NamedTuple):
    """A chart of a figure by run, with its levels before and after a change.

    Positions are percentages of the chart's width and height.
    """

    low: str
    high: str
    dots: Sequence[tuple[float, float, bool]]  # x, y, whether at the new level
    before: tuple[float, float, float]  # from x, to x, y
    after: tuple[float, float, float]
    span: str


class ChangedRow(NamedTuple):
    """A figure's levels before and after a change, with a chart if its values were stored."""

    name: str
    of: str
    before: Figure
    after: Figure
    change: Figure
    chart: HistoryChart | None


class ChangeDetails(NamedTuple):
    """A change, as facts and rows for a page and as `lines` for a terminal."""

    title: str
    worse: bool
    facts: Sequence[tuple[str, Sequence[str]]]
    rows: Sequence[ChangedRow]
    lines: Sequence[str]

    @property
    def shown(self) -> Sequence[ChangedRow]:
        return self.rows[:SHOWN_ROWS]

    @property
    def folded(self) -> Sequence[ChangedRow]:
        return self.rows[SHOWN_ROWS:]


class Folded(NamedTuple):
    title: str
    blocks: Sequence[Block]


Block: TypeAlias = (
    Text
    | Table
    | Charts
    | SizeCharts
    | Verdict
    | Facts
    | Remarks
    | Lines
    | Printed
    | Traces
    | ColdStarts
    | Machines
    | Jobs
    | Comparison
    | Uncompared
    | ChangeDetails
    | Folded
)


class Section(NamedTuple):
    """A titled part of a page; `more` labels any link to a separate page for the section."""

    id: str
    title: str
    blocks: Sequence[Block]
    more: str = ""
    on_page_alone: bool = False


class StudyAnswer(NamedTuple):
    """A study's answer: a short verdict, explanatory sentences, and cautions."""

    question: str
    verdict: str
    sentence: str
    cautions: list[str]
    more: Sequence[str] = ()  # sentences, one per line

    @classmethod
    def unknown(cls, question: str, why: str, remedy: str, cautions: Iterable[str] = ()) -> Self:
        """Build an answer that says why the answer isn't known and what to do about it."""
        return cls(question, NOT_KNOWN, f"{why.rstrip('.')}. {remedy}", list(cautions))

    @property
    def is_known(self) -> bool:
        return not self.verdict.startswith(NOT_KNOWN)

    @property
    def lines(self) -> list[str]:
        return [f"{self.question} {self.verdict}. {self.sentence}", *self.more]

    def text(self) -> str:
        return " ".join((self.sentence, *self.more))


class Line(NamedTuple):
    """A secondary question, its answer, and the section that has the details."""

    question: str
    answer: str
    section: str | None


class Cell(NamedTuple):
    """The verdict on a target across a workload's rows, with ratios and a qualifying note."""

    word: str
    ratio: str
    note: str
    colour: Colour


class Matrix(NamedTuple):
    """Verdicts by workload, with one column per GPU target."""

    measure: Measure
    caption: str
    gpus: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


class Story(NamedTuple):
    """One kind of study's part of the first screen, plus notes on its figures and its cost."""

    anchor: str  # of the first answer
    title: str  # of the run's page
    answers: Sequence[StudyAnswer]
    trust: str  # how far the figures can be trusted, in a sentence or two
    meaning: Sequence[str]  # how to read the figures
    lines: Sequence[Line] = ()
    matrices: Sequence[Matrix] = ()
    not_paid: tuple[str, str] | None = None  # what the cost excludes: a name and a sentence


class FirstScreen(NamedTuple):
    """The top of a run's page."""

    stories: Sequence[Story]
    lines: Sequence[Line]


class Page(NamedTuple):
    """A page: an answer, then blocks, then sections; any `notices` go above the title."""

    title: str
    about: str
    answer: str | FirstScreen = ""
    blocks: Sequence[Block] = ()
    warnings: Sequence[str] = ()
    notices: Sequence[str] = ()
    sections: Sequence[Section] = ()
    moment: str = ""  # distinguishes browser tabs


class Beside(NamedTuple):
    """An extra page in a run's report, stored in a separate file and linked from a section."""

    section: str
    file: str
    page: Page


def figure(told: Figure | str | int | None) -> Figure:
    """Return a Figure as it is, and wrap any other value in a Figure; None becomes a dash."""
    return told if isinstance(told, Figure) else Figure("-" if told is None else str(told), "")


def _column(values: Sequence[ColumnValue]) -> list[Figure]:
    compared = [value for value in values if isinstance(value, ComparedFigure)]
    among = grouped((one.among, one.estimate) for one in compared)
    return [
        _rounded_alike(value, among[value.among])
        if isinstance(value, ComparedFigure)
        else figure(value)
        for value in values
    ]


def _rounded_alike(one: ComparedFigure, beside: Others) -> Figure:
    return one.form(one.estimate, beside) if one.estimate else figure(None)


def grouped(found: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Group values by key, keeping their order."""
    groups: dict[K, list[T]] = {}
    for key, one in found:
        groups.setdefault(key, []).append(one)
    return groups


def capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
