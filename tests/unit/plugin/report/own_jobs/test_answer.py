"""What a run says of an own job: first screen, list of runs, terminal."""

import re
from dataclasses import replace

import pytest

from batchmark.report.answer import first_screen, summarize
from batchmark.report.model import Report
from batchmark.report.own_jobs.answer import METRICS, answer, question, trust
from batchmark.report.own_jobs.standings import main_places
from batchmark.report.own_jobs.words import prices, remarks
from batchmark_job.result.document import Device, MetricSummary
from tests.builders.own_job_studies import (
    CPU,
    GPU,
    TIMES,
    metric,
    on_laptop,
    own_job_report,
    own_jobs_of,
    place,
    side,
    side_by_start,
    sides_at_64,
    study,
    telling,
    throughput,
    two_sides,
)
from tests.builders.own_jobs import CPU as ON_CPU
from tests.builders.own_jobs import GPU as ON_GPU
from tests.builders.reports import answers, render_html, terminal
from tests.builders.runs import LAPTOP_ENVIRONMENT, build_job

QUESTION = "Which target runs thumbnails best?"


def lines(report):
    return {line.question: line.answer for line in first_screen(report).lines}


def test_one_side_is_the_fastest_and_the_cheapest_or_two_sides_are():
    found = answer(study(*sides_at_64(10.0, 40.0)))
    assert found.verdict == GPU
    assert found.sentence == "Fastest: g5.xlarge (4.0× [3.8, 4.2] faster than c5.2xlarge)."
    assert found.more == [
        "Cheapest: g5.xlarge ($0.00279 [0.00271, 0.00288] a job, 1.35× [1.27, 1.43] cheaper than "
        "c5.2xlarge)."
    ]
    assert found.cautions == []
    found = answer(study(*sides_at_64(10.0, 15.0)))
    assert found.verdict == "g5.xlarge in time, c5.2xlarge in dollars"
    assert "Cheapest: c5.2xlarge ($0.00142" in found.text()
    assert "2.0× [1.9, 2.1] cheaper than g5.xlarge" in found.text()


@pytest.mark.parametrize(
    ("seconds", "each", "short"),
    [(2.4, {}, True), (2.6, {}, False), (1.9, {"command_seconds": None}, True)],
)
def test_jobs_that_mostly_measure_a_containers_start_are_named_once(seconds, each, short):
    report = own_job_report(study(*sides_at_64(seconds, 40.0, each=each)))
    (found,) = answers(report)
    told = (
        "The command took less than 2 s at size 64: on AWS, jobs this short mostly measure the "
        "container's start. Give each more work."
    )
    assert found.cautions == [told] * short
    assert render_html(report).count("measure the container") == short


def test_without_a_gpu_an_own_job_is_told_that_one_helps_only_if_it_is_used():
    laptop = {"environment": LAPTOP_ENVIRONMENT, "actual_device": Device.CPU}
    jobs = [replace(one, **laptop).job(repeat=n) for one in (ON_GPU, ON_CPU) for n in range(1, 7)]
    text = terminal(own_job_report(study(*sides_at_64(10.0, 40.0)), jobs=jobs))
    told = "Run it on a machine with a GPU, which helps only if the command uses it."
    assert " ".join(text.split()).count(told) == 1


def test_where_the_winner_changes_the_answer_is_by_size_and_short_also_in_the_list_of_runs():
    found = answer(two_sides())
    assert found.verdict == "It depends on the size"
    assert "Fastest: g5.xlarge at every size (2.0× to 5.2× faster" in found.sentence
    assert found.more == [
        "Cheapest: c5.2xlarge up to size 64 (by 1.48×), g5.xlarge from size 256 (by 1.22× to "
        "1.77×), $0.0015 to $0.018 a job."
    ]
    report = own_job_report(two_sides(deadline_seconds=60))
    (found,) = answers(report)
    for line in (f"{found.verdict}. {found.sentence}", *found.more):
        assert len(line) < 135, line  # as many fit into 1280 pixels
    assert len(found.more) == 2
    assert found.cautions == []
    summary = summarize(report)
    assert summary.verdict == found.verdict
    assert (summary.suites, summary.gpus, summary.cpus) == (("job-thumbnails",), (GPU,), (CPU,))


def test_the_size_from_which_a_target_is_ahead_comes_from_its_pairs():
    jobs = [job for target in (GPU, CPU) for job in own_jobs_of(target, TIMES[target])]
    report = own_job_report(two_sides(), jobs=jobs)
    (found,) = answers(report)
    assert found.question == QUESTION
    assert found.text().count("140") == 1
    assert (
        "Cheapest: c5.2xlarge up to about size 140 (by 1.48×), g5.xlarge from there on (by 1.22× "
        "to 1.77×), "
    ) in found.text()
    assert "Does the GPU pay off? It depends." in terminal(report)


def test_a_winner_that_changes_is_named_with_its_sizes():
    times = {GPU: {64: 20.0, 128: 20.0, 256: 20.0}, CPU: {64: 10.0, 128: 20.1, 256: 40.0}}
    assert (
        "Fastest: c5.2xlarge up to size 64 (by 2.0×), g5.xlarge from size 256 (by 2.0×), not "
        "known yet at size 128." in answer(two_sides(times)).sentence
    )
    times = {GPU: {64: 10.0, 128: 20.0, 256: 10.0}, CPU: {64: 20.0, 128: 10.0, 256: 20.0}}
    there_and_back = "g5.xlarge at size 64, 256 (by 2.0×), c5.2xlarge at size 128 (by 2.0×"
    assert there_and_back in answer(two_sides(times)).sentence
    sizes = range(1, 21)
    times = {GPU: {n: 10.0 + 10 * (n % 2) for n in sizes}, CPU: dict.fromkeys(sizes, 14.0)}
    assert "at size 1, 3, 5, 7, 9, 11 and 4 more (by 1.43×" in answer(two_sides(times)).sentence


def test_a_side_whose_check_failed_is_named_with_why_below_and_not_for_that_size():
    problem = "1 of 6 jobs failed: its check ended with 1"
    cpu = side(CPU, {64: 4.0, 256: None}, problems={256: problem})
    report = own_job_report(study(side(GPU, {64: 8.0, 256: 10.0}), cpu))
    (found,) = answers(report)
    assert found.cautions == ["No figure for c5.2xlarge at size 256; see below for the reasons."]
    for shown in (render_html(report), terminal(report)):
        assert f"Not compared: c5.2xlarge at size 256: {problem}" in shown
    assert found.verdict == "c5.2xlarge, where that is known"
    assert found.sentence.startswith("Fastest: c5.2xlarge at size 64 (2.0× ")
    assert found.sentence.endswith("; at size 256 only g5.xlarge has a figure.")
    assert found.more[0].startswith("Cheapest: c5.2xlarge at size 64 (")


def test_a_size_of_which_no_job_is_left_is_not_won():
    def at(size):
        return place(size, None if size == 256 else "warm")

    lost = {"problems": {256: "none of its jobs left a result"}, "at": at}
    found = [side(name, {64: of[64], 256: None}, **lost) for name, of in TIMES.items()]
    told = answer(study(*found))
    assert told.verdict == "g5.xlarge in time, c5.2xlarge in dollars where that is known"
    assert "Fastest: g5.xlarge at size 64 (" in told.sentence


@pytest.mark.parametrize(
    ("deadline", "told"),
    [
        (None, ""),
        (9, "Within 9 s (all 6 jobs met it): g5.xlarge at size 64, $0.0022 a job; none at size "),
        (9, "; none at size 256, 1024, 4096."),
        (
            60,
            ": c5.2xlarge at size 64, g5.xlarge at size 256, 1024, $0.0015 to $0.0056 a job; none",
        ),
        (5, "Within 5 s: no side met the deadline."),
        (400, ": c5.2xlarge up to size 64, g5.xlarge from size 256, $0.0015 to $0.018 a job."),
    ],
)
def test_within_a_deadline_the_cheapest_that_keeps_it(deadline, told):
    text = answer(two_sides(deadline_seconds=deadline)).text()
    assert told in text
    assert ("Within" in text) == (deadline is not None)


def test_sides_that_are_not_known_to_differ_in_dollars_share_a_deadline():
    found = two_sides({GPU: {64: 10.0}, CPU: {64: 20.0}}, deadline_seconds=60)
    (best,) = found.best
    step = best.within.model_copy(update={"rivals": (GPU,), "target": CPU})
    best = best.model_copy(update={"deadlines": (step,), "within": step})
    found = found.model_copy(update={"best": (best,)})
    assert "Within 60 s (all 6 jobs met it): c5.2xlarge or g5.xlarge, $" in answer(found).text()
    assert "c5.2xlarge or g5.xlarge " in terminal(own_job_report(found))


def test_without_a_price_a_side_is_left_out_of_the_cheapest_and_that_is_said():
    unpriced = side("c7i.large", {64: 16.0}, priced=False)
    found = answer(study(*sides_at_64(8.0, 16.0), unpriced, deadline_seconds=10))
    assert found.more[0].startswith("Cheapest of those with a price: c5.2xlarge (")
    assert found.more[1] == "Within 10 s (all 6 jobs met it): g5.xlarge, $0.0022 a job."
    found = answer(study(side(GPU, {64: 8.0}), unpriced, deadline_seconds=5))
    assert found.more == [
        "Only g5.xlarge has a price: $0.0022 a job.",
        "Within 5 s: no side with a price met the deadline.",
    ]
    # Without any price a deadline is kept in time.
    sides = [on_laptop(name, {64: 10.0, 256: 100.0}) for name in (CPU, "c6i.2xlarge")]
    assert answer(study(*sides, deadline_seconds=60)).more == [
        "Within 60 s (all 6 jobs met it): c5.2xlarge at size 64, c6i.2xlarge at size 64.",
    ]


def test_too_few_jobs_or_noise_leave_it_not_known_and_say_how_many_or_how_much():
    found = answer(study(*sides_at_64(8.0, 9.0, jobs=3)))
    assert found.verdict == "Not known yet"
    assert "Fastest: not known yet; g5.xlarge leads c5.2xlarge by 1.1×" in found.sentence
    assert found.cautions == [
        (
            "A target has only 3 jobs to go by. Use at least 6 repeats: with fewer, times "
            "have no interval, and no target is judged better."
        )
    ]
    found = answer(study(*sides_at_64(10.0, 10.1)))
    assert found.verdict == "c5.2xlarge in dollars where that is known"
    assert found.cautions == [
        "Where the result is not known yet, the times of identical jobs may differ by up to 4.0 %: "
        "measure 10 repeats per side to find nearly every difference of 5 %, or use a quieter "
        "machine."
    ]
    found = answer(study(*sides_at_64(10.0, 10.1), shown=(64,)))
    assert found.verdict == "No difference in time, c5.2xlarge in dollars"
    assert found.cautions == []


def versions(new, baseline, **fields):
    """A study of two versions on one instance type, by size 1, 2 and so on, and by a metric."""

    def version(name, times):
        of = dict(enumerate(times, 1))
        found = side(CPU, of, metrics={n: [throughput(1 / of[n])] for n in of})
        return found.model_copy(update={"target": found.target.model_copy(update={"target": name})})

    return study(version("new", new), version("baseline", baseline), **fields)


@pytest.mark.parametrize(
    ("new", "shown", "verdict", "told", "cautions"),
    [
        ([9.9, 9.9], (1, 2), "No difference", "no difference at every size", 0),
        ([9.9], (1,), "No difference", "no difference", 0),
        (
            [9.9, 9.9],
            (1,),
            "No difference, where that is known",
            "no difference at size 1, not known yet at size 2",
            1,
        ),
        (
            [9.9, 20.0],
            (1,),
            "baseline, where they differ",
            "baseline at size 2 (by 2.0× [1.9, 2.1]), no difference at size 1",
            0,
        ),
        (
            [9.9, 9.9, 20.0],
            (1,),
            "baseline, where they are known to differ",
            "baseline at size 3 (by 2.0× [1.9, 2.1]), no difference at size 1, not known yet at "
            "size 2",
            1,
        ),
    ],
)
def test_two_sides_have_no_difference_where_their_jobs_would_show_one(
    new, shown, verdict, told, cautions
):
    baseline = [10.0] * len(new)
    found = versions(new, baseline, shown=shown)
    by_time = answer(found)
    assert (by_time.verdict, by_time.sentence) == (verdict, f"Fastest: {told}.")
    assert by_time.more[0].startswith(f"Cheapest: {told.partition(' (')[0]}")
    assert len(by_time.cautions) == cautions
    by_metric = lines(own_job_report(found))[METRICS]
    best = "best on " * (20.0 in new)
    words = told.replace(" at every size", "").replace(" (by 2.0× [1.9, 2.1])", "")
    assert by_metric.removesuffix(" (2.0× [1.9, 2.1] the next).").rstrip(".") == (
        f"throughput: {best}{words}"
    )
    # Three sides are no two.
    other = side("c6i.2xlarge", dict(enumerate(baseline, 1)))
    assert "no difference" not in answer(study(*found.sides, other, shown=shown)).text()


def test_one_cpu_in_place_of_a_gpu_is_no_comparison():
    sides = [
        on_laptop(name, {64: seconds, 256: seconds}, jobs=jobs)
        for name, seconds, jobs in ((GPU, 10.0, 7), (CPU, 10.1, 6))
    ]
    found = study(*sides, shown=(64, 256))
    note = "not comparable: both ran on the same CPU, AMD Ryzen 7 PRO 7840U"
    noise = found.duels[0].noise.model_copy(update={"note": note})
    duels = [duel.model_copy(update={"noise": noise}) for duel in found.duels]
    found = found.model_copy(update={"duels": tuple(duels)})
    told = answer(found)
    assert told.verdict == "Not comparable"
    assert told.sentence == "Both ran on the same CPU, AMD Ryzen 7 PRO 7840U."
    assert told.cautions == []
    assert trust([found]).endswith(
        "alone. With 6 to 7 jobs a side, identical jobs may differ by up to 4.0 %."
    )
    page = terminal(own_job_report(found)).lower()
    assert page.count("not comparable") == 1
    assert "verdict" not in page
    assert "over the fastest" not in page


def test_a_side_that_cannot_be_pooled_is_named():
    refused = side(CPU, {}, refused="its jobs ran in different environments")
    report = own_job_report(study(side(GPU, {64: 8.0}), refused))
    (found,) = answers(report)
    assert found.verdict == "Nothing to compare"
    assert "Only g5.xlarge has a figure: size 64: 8.0 s [7.8, 8.2], $0.00224" in found.sentence
    assert found.cautions == ["No figure for c5.2xlarge; see below for the reasons."]
    assert "Not compared: c5.2xlarge: its jobs ran in different environments" in terminal(report)


def test_a_lone_side_was_measured_alone_and_nothing_measured_is_not_known():
    found = answer(study(side(GPU, {64: 8.0}), deadline_seconds=9))
    assert (found.verdict, found.sentence) == (
        "Nothing to compare",
        "Only g5.xlarge was measured: size 64: 8.0 s [7.8, 8.2], $0.00224 [0.00217, 0.00230] a "
        "job.",
    )
    assert found.more == ["Within 9 s (all 6 jobs met it): g5.xlarge, $0.0022 a job."]
    none = side(GPU, {64: None}, problems={64: "none of its jobs left a result"})
    found = answer(study(none))
    assert (found.verdict, found.sentence) == (
        "Not known",
        "No job of thumbnails produced a figure; the reasons are below. Fix that, then run it "
        "again.",
    )


def test_cold_and_warm_jobs_are_told_apart():
    gpu = side_by_start(GPU, cold=30.0, warm=8.0, jobs=(6, 8))
    cpu = side_by_start(CPU, cold=20.0, warm=16.0, jobs=(7, 7))
    report = own_job_report(study(gpu, cpu))
    (found,) = answers(report)
    assert found.question == "Which target runs thumbnails best on warm instances?"
    assert found.sentence.startswith("Fastest: g5.xlarge (")
    assert lines(report)["Cold or warm?"] == (
        "13 jobs ran on cold instances (compared separately from the others). Fastest: c5.2xlarge "
        "(1.50× [1.42, 1.60] faster than g5.xlarge)."
    )
    text = terminal(report)
    assert "Time and price, on cold instances" in text
    assert "Time and price, on warm instances" in text


@pytest.mark.parametrize(("jobs", "main"), [((6, 6), "warm"), ((7, 6), "cold"), ((5, 6), "warm")])
def test_the_main_start_is_that_of_the_most_jobs_and_of_two_the_warm_one(jobs, main):
    found = study(side_by_start(GPU, cold=8.0, warm=8.0, jobs=jobs))
    assert main_places(found) == [place(64, main)]


def test_metrics_have_a_line_of_their_own_and_those_of_one_name_their_unit():
    gpu, cpu = (
        [throughput(value), metric("loss", loss, "nats", higher=False)]
        for value, loss in ((600.0, 0.30), (300.0, 0.20))
    )
    assert lines(own_job_report(telling(gpu, cpu)))[METRICS] == (
        "throughput: best on g5.xlarge (2.0× [1.9, 2.1] the next); loss: best on c5.2xlarge (1.50× "
        "[1.42, 1.60] the next)."
    )
    assert METRICS not in lines(own_job_report(two_sides()))
    told = [throughput(600.0, unit=unit) for unit in ("images/s", "steps/s")]
    text = terminal(own_job_report(telling(told, ())))
    assert "throughput (images/s)" in text
    assert "throughput (steps/s)" in text


def test_trust_is_the_owners_word_and_the_noise():
    assert trust([two_sides()]) == (
        "All results that count were checked by exit code alone. Times differ beyond the noise in "
        "4 of 4 comparisons; of equal sides about 1 in 100 would."
    )

    def by(*kinds):
        return {"each": {"checked_by": kinds}}

    alike = sides_at_64(8.0, 9.0, **by("command", "the checksum of out.zip"))
    assert trust([study(*alike)]).startswith(
        "All results that count were checked by a check command and the checksum of out.zip."
    )
    gpu, cpu = by("command", "exit_code"), by("exit_code")
    assert trust([study(side(GPU, {64: 8.0}, **gpu), side(CPU, {64: 16.0}, **cpu))]).startswith(
        "Results that count were checked by a check command and exit code on g5.xlarge, by exit "
        "code alone on c5.2xlarge. "
    )


def test_sides_bought_otherwise_are_priced_alike_and_that_is_said():
    def bought(name, option):
        found = side(name, {64: 10.0}, job={"purchase_option": option})
        price = found.price.model_copy(update={"spot_usd_per_hour": 0.136})
        return found.model_copy(update={"price": price})

    found = study(bought(CPU, "spot"), bought(GPU, "on_demand"))
    told = (
        "Dollars are at On-Demand prices for all sides, however their instances were bought; on "
        "Spot, c5.2xlarge is 0.400× that."
    )
    assert told in answer(found).cautions
    assert told in remarks(found)
    assert "c5.2xlarge: 0.34 USD per hour, On-Demand (0.136 on Spot), bought on Spot; g5" in prices(
        found
    )
    assert not any("Spot" in text for text in answer(two_sides()).cautions)


@pytest.mark.parametrize(
    ("samples", "busiest", "failed", "said"),
    [(4, 0, False, True), (4, 3, False, False), (1, 0, False, False), (4, 0, True, False)],
)
def test_a_gpu_that_no_sample_saw_busy_is_told(samples, busiest, failed, said):
    use = {"unit": "percent", "samples": samples, "minimum": 0, "mean": 0, "maximum": busiest}
    told = MetricSummary(metric="GPUUtilization", **use)
    gpu = side(GPU, {64: 10.0}, jobs=2, job={"telemetry": (told,), "build": build_job})
    jobs = [job.model_copy(update={"failed": failed}) for job in gpu.target.jobs]
    target = gpu.target.model_copy(update={"jobs": tuple(jobs)})
    found = study(gpu.model_copy(update={"target": target}), side(CPU, {64: 40.0}))
    line = (
        "The GPU of g5.xlarge was at 0 % in all 8 utilization samples: check whether the image "
        "and c"
    )
    assert any(one.startswith(line) for one in answer(found).cautions) == said
    assert (line in terminal(own_job_report(found))) == said


def test_a_comparison_has_sides_and_queues_that_others_use():
    found = two_sides(existing=True)
    assert question(found) == "Which side runs thumbnails best?"
    caution = "Caution: other users' jobs may run on the same instances"
    assert caution in terminal(own_job_report(found))
    assert caution not in terminal(own_job_report(two_sides()))


def test_two_cpu_queues_are_no_gpu_and_cpu_and_their_cold_starts_stand_without_a_pair():
    report = own_job_report(two_sides({CPU: {64: 10.0}, "c6i.2xlarge": {64: 5.0}}))
    for shown in (render_html(report), terminal(report)):
        assert QUESTION in shown
        assert "GPU pay off" not in shown
        assert "GPU target" not in shown
    starts = "^c.* from submission to the end of warm-up: "
    assert len(re.findall(starts, terminal(report), re.MULTILINE)) == 2


def test_older_reports_of_own_jobs_are_read():
    report = own_job_report(two_sides())
    older = report.model_dump(mode="json", exclude={"studies"}) | {"report_version": 6}
    study = report.model_dump(mode="json")["studies"]["own_jobs"]
    assert Report.model_validate(older | {"own_jobs": study}).studies == report.studies
    assert Report.model_validate(older).studies == {}


def test_several_jobs_of_a_run_have_an_answer_each():
    told = [throughput(600.0)]
    report = own_job_report(*(telling(told, told, name=name) for name in ("nightly", "thumbnails")))
    assert [one.question for one in answers(report)] == [
        "Which target runs nightly best?",
        "Which target runs thumbnails best?",
    ]
    assert lines(report)[METRICS].startswith(
        "nightly: throughput: not known yet, more repeats would tell. "
    )
    page = render_html(report)
    assert 'aria-labelledby="own-job-2"' in page
    assert "<h1>nightly and 1 more on g5.xlarge, c5.2xlarge</h1>" in page


@pytest.mark.parametrize("axis", ["batchSize", "mb"])
def test_an_axis_is_called_as_it_was_given(axis):
    report = own_job_report(two_sides(axis=axis))
    for shown in (terminal(report), render_html(report)):
        assert axis in shown
        assert axis.capitalize() not in shown
