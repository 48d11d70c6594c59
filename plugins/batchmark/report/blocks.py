"""What a report is made of, whatever its run asked: the page and the terminal draw these.

A kind of run says each fact once, as a block; who draws blocks knows no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, Self, TypeAlias, TypeVar

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.pairs.pair import Pair
from batchmark.analysis.pooling import JobRecord
from batchmark.core.formatting import Figure, Others
from batchmark.core.intervals import Estimate
from batchmark.report.charts import Scale, SizeChart
from batchmark.report.machines import JobLine, Machines

NOT_KNOWN = "Not known"  # how a verdict begins that is none
SHOWN_ROWS = 6  # of a change; the others are folded
Colour = Literal["gpu", "cpu", "both", "unknown"]
K = TypeVar("K")
T = TypeVar("T")
Form: TypeAlias = Callable[[Estimate, Others], Figure]  # a figure in words, beside others


class Link(NamedTuple):
    """Of an address that is no web address, or of none, only the text is shown."""

    text: str
    address: str

    def __str__(self) -> str:
        return self.text


class Text(NamedTuple):
    """A sentence or some, perhaps with a link at its end; `style` is its class on the page."""

    text: str
    style: str = "meta"
    link: Link | None = None


class Rival(NamedTuple):
    """A figure that has its last digit in common with those of its column it is held against.

    They are those with the same `among`; by default all of them. Without an estimate it is a dash.
    """

    estimate: Estimate | None
    form: Form
    among: Hashable = None


ColumnValue: TypeAlias = Figure | Rival | str | int | None


class Table(NamedTuple):
    """Rows of figures or words; a terminal, which is narrow, leaves some columns out.

    On a narrow screen a wide one becomes a list of cards, and any other scrolls. Without a title it
    stands below its section's.
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
        """A row of figures for each item: what each column says of it, by heading.

        A column has None where it has nothing to say; those in `without` are left out.
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
    """On the page alone; tables say the same."""

    caption: str
    charts: Sequence[Chart]


class SizeCharts(NamedTuple):
    """Of times and dollars over size, each with its table; on the page alone."""

    charts: Sequence[SizeChart]


class Verdict(NamedTuple):
    verdict: str
    sentence: str


class Facts(NamedTuple):
    """Questions with their answers; without a title they stand below their section's."""

    title: str
    facts: Sequence[tuple[str, str]]


class Remarks(NamedTuple):
    """What to read with care, then what else is to be known."""

    texts: Sequence[str]
    notes: Sequence[str] = ()


class Lines(NamedTuple):
    """What a job printed, each line with what is to be said of it."""

    title: str
    lines: Sequence[tuple[str, str]]
    left_out: int = 0


class Printed(NamedTuple):
    """The last lines that a job printed, perhaps with a link to the others."""

    title: str
    caption: str
    lines: Sequence[str]
    link: Link | None = None


class Traces(NamedTuple):
    """Jobs with their logs and results; `where` by their ids."""

    jobs: Sequence[JobRecord]
    where: Mapping[str, str] = MappingProxyType({})


class ColdStarts(NamedTuple):
    """`labels` by target."""

    starts: Sequence[ColdStart]
    labels: Mapping[str, str]
    on_ec2: bool


class Jobs(NamedTuple):
    """Jobs with what each cost; a terminal counts them, unless they are to be listed."""

    jobs: Sequence[JobLine]
    listed: bool = False


class Comparison(NamedTuple):
    """The rows of two targets, first against second, and their whole jobs."""

    pair: Pair

    @property
    def scale(self) -> Scale:
        return Scale(row.speedup for row in self.pair.rows)


class Uncompared(NamedTuple):
    """Rows that only one of two targets measured, or none."""

    pair: Pair


class HistoryChart(NamedTuple):
    """Where a figure's runs and its two levels lie, in percent of the chart's width and height."""

    low: str
    high: str
    dots: Sequence[tuple[float, float, bool]]  # the last says whether it is at the new level
    before: tuple[float, float, float]  # from, to, and how high
    after: tuple[float, float, float]
    span: str


class ChangedRow(NamedTuple):
    """A figure's two levels, and its runs drawn where they were kept."""

    name: str
    of: str
    before: Figure
    after: Figure
    change: Figure
    chart: HistoryChart | None


class ChangeDetails(NamedTuple):
    """A change: its facts and its rows on the page, the same in lines on a terminal."""

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
    """`more` leads to the page beside the report that has this section's id, if there is one."""

    id: str
    title: str
    blocks: Sequence[Block]
    more: str = ""
    on_page_alone: bool = False


class StudyAnswer(NamedTuple):
    """What a study comes to: in a few words, in sentences, and what limits it."""

    question: str
    verdict: str
    sentence: str
    cautions: list[str]
    more: Sequence[str] = ()  # sentences, each in a line of its own

    @classmethod
    def unknown(cls, question: str, why: str, remedy: str, cautions: Iterable[str] = ()) -> Self:
        """One that is none: why, and what to do."""
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
    """A question beside the main one, its answer, and the section that has the details."""

    question: str
    answer: str
    section: str | None


class Cell(NamedTuple):
    """A target in all rows of a workload: a verdict, its ratios, what qualifies it."""

    word: str
    ratio: str
    note: str
    colour: Colour


class Matrix(NamedTuple):
    """Verdicts by workload, one column for each GPU target."""

    measure: Measure
    caption: str
    gpus: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


class Story(NamedTuple):
    """What is to say of what a run asked, if it asked that."""

    anchor: str  # of the first answer
    title: str  # of the run's page
    answers: Sequence[StudyAnswer]
    trust: str  # how far the figures can be trusted, in a sentence or two
    meaning: Sequence[str]  # how to read them
    lines: Sequence[Line] = ()
    matrices: Sequence[Matrix] = ()
    not_paid: tuple[str, str] | None = None  # what the cost leaves out: its name, and a sentence


class FirstScreen(NamedTuple):
    """What a run's page begins with."""

    stories: Sequence[Story]
    lines: Sequence[Line]


class Page(NamedTuple):
    """An answer, some blocks, then sections; `notices` are to be read before it."""

    title: str
    about: str
    answer: str | FirstScreen = ""
    blocks: Sequence[Block] = ()
    warnings: Sequence[str] = ()
    notices: Sequence[str] = ()
    sections: Sequence[Section] = ()
    moment: str = ""  # tells tabs of a browser apart


class Beside(NamedTuple):
    """A page beside a run's report, in a file of its own, that a section leads to."""

    section: str
    file: str
    page: Page


def figure(told: Figure | str | int | None) -> Figure:
    """A figure as it is, or what has no interval; a dash for None."""
    return told if isinstance(told, Figure) else Figure("-" if told is None else str(told), "")


def _column(values: Sequence[ColumnValue]) -> list[Figure]:
    rivals = [value for value in values if isinstance(value, Rival)]
    among = grouped((rival.among, rival.estimate) for rival in rivals)
    return [
        _rival(value, among[value.among]) if isinstance(value, Rival) else figure(value)
        for value in values
    ]


def _rival(one: Rival, beside: Others) -> Figure:
    return one.form(one.estimate, beside) if one.estimate else figure(None)


def grouped(found: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Each key, such as a text, with all that it stands with, in their order."""
    groups: dict[K, list[T]] = {}
    for key, one in found:
        groups.setdefault(key, []).append(one)
    return groups


def capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
