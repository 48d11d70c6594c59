"""The first screen: the answer in a word, its matrix, what stands in the way, each said once."""

import pytest

from batchmark.analysis.pairs.notes import few_jobs_note
from batchmark.changes.suspects import too_early
from batchmark.report.answer import answer_lines, first_screen
from batchmark.report.change_records import ChangesSection
from tests.builders.pairs import SIZES
from tests.builders.pairs import at_sizes as jobs
from tests.builders.reports import render_html, report_of, terminal
from tests.builders.runs import (
    LAPTOP_ENVIRONMENT,
    build_job,
    build_repeats,
    build_row,
    build_run,
    noisy,
)

GPU, CPU = "g5.xlarge", "c5.2xlarge"  # at 1.006 and 0.34 USD an hour


def asked(report):
    """The first screen's answer on all pairs, and what stands with it."""
    (story,) = first_screen(report).stories
    (answer,) = story.answers
    return answer, story


def report_on(*of_targets, **fields):
    return report_of(build_run(*(job for one in of_targets for job in one)), **fields)


@pytest.mark.parametrize(
    ("cpu", "verdict", "cheaper", "dearer"),
    [
        ([4.0, 5.0], "Yes", 2, 0),
        ([2.0, 2.0], "No, not in dollars", 0, 2),
        ([2.0, 5.0], "It depends", 1, 1),
    ],
)
def test_the_word_is_by_dollars_and_the_sentence_counts_both(cpu, verdict, cheaper, dearer):
    report = report_on(jobs(GPU, 1.0, 1.0), jobs(CPU, *cpu))
    answer, _ = asked(report)
    sentence = (
        f"Of 2 rows, the GPU is faster in 2, slower in 0; cheaper in {cheaper}, dearer in {dearer}."
    )
    assert (answer.verdict, answer.sentence, answer.cautions) == (verdict, sentence, [])
    assert f"Does the GPU pay off? {verdict}. {sentence}" in terminal(report)


@pytest.mark.parametrize(
    ("cpu", "verdict"), [(4.0, "Yes, in time"), (0.2, "No, not in time"), (1.0, "Not known yet")]
)
def test_without_prices_the_word_is_by_time_and_says_so(cpu, verdict):
    on_laptop = jobs(CPU, cpu, environment=LAPTOP_ENVIRONMENT)
    answer, story = asked(report_on(jobs(GPU, 1.0), on_laptop))
    assert answer.verdict == verdict
    assert answer.sentence.endswith("; what that costs is not known.")
    assert (
        answer.cautions[-1]
        == "No cost is shown for c5.2xlarge: its time was measured on a machine outside EC2."
    )
    assert [matrix.measure for matrix in story.matrices] == ["time"]


def test_too_few_jobs_are_said_once_and_only_where_they_keep_something_unknown():
    near = [jobs(one, 1.1, repeats=1, suite="blog") for one in (CPU, "c5.9xlarge")]
    answer, _ = asked(report_on(jobs(GPU, 1.0, repeats=1), *near))
    assert answer.verdict == "Not known yet"
    assert answer.cautions[0] == few_jobs_note(1)
    assert "against the best CPU target" in answer.sentence
    far, _ = asked(report_on(jobs(GPU, 1.0, repeats=1), jobs(CPU, 500.0, repeats=1)))
    assert far.cautions == []


def test_a_cell_says_in_words_what_its_colour_says():
    rows = {
        "crosses": ([1.0, 1.1, 1.2, 1.3], [0.3, 0.7, 2.0, 6.0]),
        "wins": ([1.0, 1.0, 1.0, 1.0], [2.0, 3.0, 4.0, 5.0]),
        "loses": ([5.0, 5.0, 5.0, 5.0], [1.0, 1.0, 1.0, 1.0]),
        "leaves open": ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0]),
        "wavers": ([1.0, 3.0, 1.0, 3.0], [2.0, 2.0, 0.5, 9.0]),
    }
    medians = [
        {
            (name, "size", size): seconds
            for name, sides in rows.items()
            for size, seconds in zip(SIZES, sides[side], strict=True)
        }
        for side in (0, 1)
    ]
    report = report_on(*map(build_repeats, (GPU, CPU), medians))
    _, story = asked(report)
    matrix = story.matrices[0]
    cells = {workload: cell for workload, (cell,) in matrix.rows}
    assert matrix.caption.startswith("Each GPU target against c5.2xlarge. ")
    assert cells["crosses"].word == "faster from size 400"  # the first that is sure
    assert [cell.colour for cell in cells.values()] == ["both", "gpu", "cpu", "gpu", "both"]
    assert [cells[name].word for name in ("wins", "loses")] == ["faster", "slower"]
    assert cells["wavers"].word == "faster in 2 of 4"
    assert cells["wins"].ratio.startswith("2.003× to 5.0")
    assert " to " not in cells["leaves open"].ratio  # one row is decided
    assert cells["leaves open"].note == "3 of 4 not known yet"
    page = render_html(report)
    for cell in cells.values():
        assert cell.word in page
        assert cell.ratio in page


def test_ratios_of_gpus_beside_each_other_share_their_last_digit():
    def noisily(target, seconds, spread=0.001):
        rows = [build_row(noisy(seconds, spread=spread, seed=n)) for n in range(1, 7)]
        return [build_job(target, [row], repeat=n) for n, row in enumerate(rows, start=1)]

    gpus = noisily(GPU, 1.0), noisily("g6.xlarge", 1.05, spread=0.1)
    _, story = asked(report_on(*gpus, noisily(CPU, 2.04)))
    ((_, cells),) = story.matrices[0].rows
    assert [len(cell.ratio.partition("×")[0]) for cell in cells] == [5, 5]  # 2.039 and 1.943


def test_a_laptop_measured_no_gpu_and_one_side_alone_is_no_answer(report_of_laptop):
    answer, story = asked(report_of_laptop)
    assert (answer.verdict, answer.cautions, story.matrices) == ("Not known", [], [])
    on_cpu = "No GPU was measured: all jobs ran on a CPU. Run it on a machine with a GPU."
    assert answer.sentence == on_cpu
    first, *_, cost = answer_lines(first_screen(report_of_laptop))
    assert first == f"Does the GPU pay off? Not known. {on_cpu}"
    assert cost == "What did it cost? No cost in dollars: the jobs ran on a machine outside EC2."
    answer, _ = asked(report_on(jobs(GPU, 1.0)))
    assert answer.verdict == "Not known"
    compared = "No GPU target was compared with a CPU target. Run it on at least one of each."
    assert answer.sentence == compared


@pytest.mark.parametrize(
    ("runs", "answer"),
    [
        (1, too_early(1)),
        (13, "Nothing changed in 4 series over up to 13 runs."),
    ],
)
def test_whether_it_changed_is_not_known_before_a_change_could_show(runs, answer):
    section = ChangesSection(changes=(), series=4, runs=runs)
    report = report_on(jobs(GPU, 1.0), jobs(CPU, 4.0), changes=section)
    assert first_screen(report).lines[0].answer == answer


def test_several_pairs_are_folded_below_the_answer():
    one = render_html(report_on(jobs(GPU, 1.0), jobs(CPU, 4.0)))
    two = render_html(report_on(jobs(GPU, 1.0), jobs(CPU, 4.0), jobs("c5.9xlarge", 2.0)))
    title = "Rows, crossovers, cold starts, machines, jobs"
    assert (one.count(title), two.count(title)) == (0, 2)
    assert two.index("Does the GPU pay off?") < two.index(">g5.xlarge against c5.2xlarge</h2>")
