"""The first screen: answer, matrix, what stands in the way; and lines on trust and cost."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.pairs.notes import few_jobs_note
from batchmark.changes.shares import Rate
from batchmark.report.answer import answer_lines, first_screen
from batchmark.report.change_records import AlertBoard
from batchmark.report.model import build_report
from batchmark.report.sections import costs, trust
from batchmark.report.studies import stories
from batchmark_job.result.document import Ceiling, Conditions, MeasurementStatus
from tests.builders.own_jobs import CPU as ON_CPU
from tests.builders.own_jobs import GPU as ON_GPU
from tests.builders.own_jobs import JobOn
from tests.builders.pairs import SIZES, two_jobs
from tests.builders.pairs import at_sizes as jobs
from tests.builders.reports import NOON, render_html, report_of, terminal
from tests.builders.runs import (
    CPU_MEDIANS,
    GPU_MEDIANS,
    LAPTOP_ENVIRONMENT,
    PRICES,
    build_full_job,
    build_job,
    build_lost,
    build_repeats,
    build_row,
    build_run,
    noisy,
)
from tests.builders.scaling_runs import Cluster, sweep

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


def test_several_pairs_are_folded_below_the_answer():
    one = render_html(report_on(jobs(GPU, 1.0), jobs(CPU, 4.0)))
    two = render_html(report_on(jobs(GPU, 1.0), jobs(CPU, 4.0), jobs("c5.9xlarge", 2.0)))
    title = "Rows, crossovers, cold starts, machines, jobs"
    assert (one.count(title), two.count(title)) == (0, 2)
    assert two.index("Does the GPU pay off?") < two.index(">g5.xlarge against c5.2xlarge</h2>")


def told_costs(report):
    return dict(costs(report, stories(report)))


def of_medians(repeats=6):
    fields = {"repeats": repeats, "build": build_full_job}
    gpu = build_repeats("g5.xlarge", GPU_MEDIANS, **fields)
    return report_of(build_run(*gpu, *build_repeats("c5.2xlarge", CPU_MEDIANS, **fields)))


def test_noise_and_the_smallest_change_are_ranges_over_rows():
    trusted = dict(trust(of_medians()))
    assert "over 7 rows: repeats for 7" in trusted["Noise from job to job"]
    assert (
        trusted["Smallest change that shows"] == "0.8 % to 1.4 %, found in 95 of 100 cases: with 6 "
        "repeats, identical jobs may differ by up to 0.8 % (matmul size 5000, float32). 12 repeats "
        "would show about 0.9 %."
    )
    assert "NVIDIA A10G" in trusted["Machines"]
    assert ", with a median of " in trusted["Share of what the machines can do"]
    assert "7 compared rows, checked" in trusted["Correctness"]


def test_disturbed_rows_are_counted_as_rows():
    rows = [build_row((0.1,) * 8, conditions_during=Conditions(cpu_wait_share=0.5))]
    found = dict(trust(report_of(build_run(*two_jobs(rows, rows)))))
    assert found["Disturbed samples"].endswith("other work took CPU time from 1 of 1 row.")


def test_what_few_or_noisy_jobs_can_not_tell_is_not_known_however_quiet_whole_jobs_are():
    found = dict(trust(of_medians(repeats=1)))
    assert found["Noise from job to job"] == "28 %, assumed (no calibration)."
    assert (
        found["Smallest change that shows"]
        == "Not known: with 1 repeat, identical jobs may differ by up to 2.7×. Use at least 6 "
        "repeats."
    )
    rows = [[build_row((10.0**n,) * 8)] for n in range(1, 7)]
    jobs = [job for n, row in enumerate(rows, start=1) for job in two_jobs(row, row, repeat=n)]
    found = dict(trust(report_of(build_run(*jobs))))
    text = found["Smallest change that shows"]
    assert text.startswith("Not known: with 6 repeats, identical jobs may differ by up to ")
    assert text.endswith(". Use more repeats, or a quieter machine.")
    few = build_run(*ON_GPU.jobs(repeats=3), *ON_CPU.jobs(repeats=3))
    found = dict(trust(report_of(few)))["Smallest change that shows"]
    assert found.startswith("Not known: with 3 repeats, identical jobs may differ by up to ")
    assert "would show" not in found, "of three jobs' noise too little is known"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("unsettled", ", all unsettled: their times still drift or jump; run again on a quieter "),
        ("failed", "; mostly g5.xlarge: unsettled: it jumps from 1 ms to 3 ms."),
    ],
)
def test_unsettled_rows_share_a_reason(status, said):
    rows = [
        build_row([0.1] * 8, parameters={"size": n}, status=MeasurementStatus(word), reason=reason)
        for n, word, reason in (
            (1, "unsettled", "it jumps from 1 ms to 3 ms"),
            (2, status, "it jumps from 2 ms to 9 ms"),
        )
    ]
    cpu = [build_row([0.1] * 8, parameters={"size": n}) for n in (1, 2)]
    run = build_run(*two_jobs(rows, cpu))
    assert f"2 rows not compared{said}" in dict(trust(report_of(run)))["Correctness"]


@pytest.mark.parametrize(
    ("caches_filled", "why"),
    [(0.1, "whose data fit in a cache"), (20.0, "in which a rate or its ceiling is wrong")],
)
def test_a_rate_above_its_ceiling_is_explained_as_its_warning_does(caches_filled, why):
    row = build_row((1e-4,) * 8, flops=1000, bytes_moved=10**8, caches_filled=caches_filled)
    ceilings = (
        Ceiling(kind="compute", dtype="float32", rate_per_second=1e12, description="torch.mm"),
        Ceiling(kind="copy", dtype=None, rate_per_second=1e11, description="copy of 1 GiB"),
    )
    run = build_run(*two_jobs([row], [row], ceilings=ceilings))
    found = dict(trust(report_of(run)))["Share of what the machines can do"]
    assert found.endswith(f"; above 100 %: 1 row {why}.")


def test_the_detector_is_left_out_until_there_is_an_alert():
    one = of_medians(repeats=1).model_copy(update={"alerts": AlertBoard(lines=())})
    assert "The detector" not in dict(trust(one))
    rated = AlertBoard(lines=(), precision=Rate.of(1, 2))
    assert "The detector" in dict(trust(one.model_copy(update={"alerts": rated})))


def test_lost_jobs_are_named():
    found = dict(trust(report_of(build_run(lost=[build_lost("g5.xlarge", "killed")]))))
    assert found["Lost jobs"] == "1: g5.xlarge, blog: killed."
    assert found["Correctness"] == "No row was measured."


def test_a_start_of_one_step_has_no_longest():
    sides = [JobOn(name, environment=LAPTOP_ENVIRONMENT) for name in ("g5.xlarge", "c5.2xlarge")]
    found = told_costs(report_of(build_run(*(side.job(64, 1, start=None) for side in sides))))
    assert found["Cold start, from STARTING to the end of container start"] == (
        "A job on g5.xlarge took 5.00 s to start; a job on c5.2xlarge took 5.00 s to start. All "
        "steps are listed with its jobs."
    )


def test_costs_by_target_add_up_and_spot_savings_are_against_on_demand():
    one = of_medians()
    found = told_costs(one)
    assert found["g5.xlarge"].endswith("for 6 jobs.")
    assert "container time of all attempts" in found["This run"]
    assert found["Cold start, from submission to the end of warm-up"] == (
        "A job on g5.xlarge took 217 s to start, at least $0.011, 177 s of it for RUNNABLE; a job "
        "on c5.2xlarge took 215 s to start, at least $0.0034, 177 s of it for RUNNABLE. All steps "
        "are listed with its jobs."
    )
    assert "Spot" not in found
    jobs = tuple(
        job.model_copy(update={"purchase_option": "spot", "usd": job.usd / 4})
        for job in one.cost.jobs
    )
    bought = one.model_copy(update={"cost": one.cost.model_copy(update={"jobs": jobs})})
    assert "75 % of it" in told_costs(bought)["Spot"]


def test_costs_of_nodes_count_them_and_name_the_file_system_that_they_leave_out():
    def told(**training):
        jobs = sweep(Cluster(), (1, 2, 4), training=training)
        found = compare(build_run(*jobs), PRICES, file_system_usd_per_hour=2.5)
        return told_costs(build_report(found, created_at=NOON))

    assert told()["g5.xlarge"].endswith(" for 3 jobs on 7 nodes.")
    assert "file system" not in " ".join(told().values())
    read = told(data="files")
    assert read["This run"].endswith("(not included: the file system).")
    assert "The file system is billed, at $2.5 an hour," in read["Not included"]
