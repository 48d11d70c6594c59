"""What a run says of an own job: first screen, list of runs, terminal."""

import pytest

from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.report.answer import first_screen
from batchmark.report.model import Report, render_json
from batchmark.report.own_jobs.answer import METRICS, answer, question, trust
from batchmark.report.page import render_html
from batchmark.report.summary import summarize
from tests.builders.own_job_studies import (
    CPU,
    GPU,
    TIMES,
    estimate,
    metric,
    on_laptop,
    own_job_report,
    own_jobs_of,
    place,
    side,
    study,
    two_sides,
)
from tests.builders.reports import terminal

QUESTION = "Which of its targets runs thumbnails best?"
TWO_CPUS = {"c5.2xlarge": {64: 10.0}, "c6i.2xlarge": {64: 5.0}}


def lines(report):
    return {line.question: line.answer for line in first_screen(report).lines}


def sides_at_64(gpu, cpu, **fields):
    return side(GPU, {64: gpu}, **fields), side(CPU, {64: cpu}, **fields)


def test_one_side_is_both_the_fastest_and_the_cheapest():
    found = answer(study(*sides_at_64(10.0, 40.0)))
    assert found.verdict == GPU
    assert found.sentence == (
        "g5.xlarge is the fastest (4.0× [3.8, 4.2] faster than c5.2xlarge). g5.xlarge is the "
        "cheapest ($0.00279 [0.00271, 0.00288] a job, 1.35× [1.27, 1.43] cheaper than c5.2xlarge)."
    )
    assert found.cautions == []


def test_the_fastest_is_not_the_cheapest():
    found = answer(study(*sides_at_64(10.0, 15.0)))
    assert found.verdict == "g5.xlarge in time, c5.2xlarge in dollars"
    assert "c5.2xlarge is the cheapest ($0.00142" in found.sentence
    assert "2.0× [1.9, 2.1] cheaper than g5.xlarge" in found.sentence


def test_where_the_winner_changes_the_answer_is_by_size():
    found = answer(two_sides())
    assert found.verdict == "It depends on the size"
    assert "g5.xlarge is the fastest at every size (2.0× to 5.2× faster" in found.sentence
    assert "The cheapest is c5.2xlarge up to size 64, g5.xlarge from size 256 (" in found.sentence


def test_the_size_from_which_a_target_is_ahead_comes_from_its_pairs():
    jobs = [job for target in (GPU, CPU) for job in own_jobs_of(target, TIMES[target])]
    report = own_job_report(two_sides(), jobs=jobs)
    ((asked, found),) = first_screen(report).own_jobs
    assert asked == QUESTION
    assert "g5.xlarge is cheaper than c5.2xlarge from about size 140 on." in found.sentence
    assert "Does the GPU pay off? It depends." in terminal(report)


def test_sizes_in_between_that_are_not_known_are_named():
    times = {GPU: {64: 20.0, 128: 20.0, 256: 20.0}, CPU: {64: 10.0, 128: 20.1, 256: 40.0}}
    sentence = answer(two_sides(times)).sentence
    assert (
        "The fastest is c5.2xlarge up to size 64, g5.xlarge from size 256, not known yet at size "
        "128 (" in sentence
    )


def test_a_winner_that_comes_and_goes_is_named_size_by_size():
    times = {GPU: {64: 10.0, 128: 20.0, 256: 10.0}, CPU: {64: 20.0, 128: 10.0, 256: 20.0}}
    sentence = answer(two_sides(times)).sentence
    assert "g5.xlarge at size 64, c5.2xlarge at size 128, g5.xlarge at size 256" in sentence


@pytest.mark.parametrize(
    ("deadline", "told"),
    [
        (None, ""),
        (9, "Within 9 s: g5.xlarge, $0.0022 a job; no side with a price keeps it at size 256, "),
        (60, "Within 60 s: c5.2xlarge up to size 64, g5.xlarge from size 256, $0.0015 to $0.0056"),
        (60, "a job; no side with a price keeps it at size 4096."),
        (5, "Within 5 s: no side with a price keeps it."),
        (400, "$0.0015 to $0.018 a job."),
    ],
)
def test_within_a_deadline_the_cheapest_that_keeps_it(deadline, told):
    sentence = answer(two_sides(deadline_seconds=deadline)).sentence
    assert (told or "a job, 1.22") in sentence
    assert ("Within" in sentence) == (deadline is not None)


def test_without_prices_a_deadline_is_kept_in_time():
    found = [on_laptop(name, {64: 10.0, 256: 100.0}) for name in (CPU, "c6i.2xlarge")]
    sentence = answer(study(*found, deadline_seconds=60)).sentence
    assert "What that costs is not known." in sentence
    assert "Within 60 s: kept by c5.2xlarge at size 64, c6i.2xlarge at size 64." in sentence


def test_too_few_jobs_leave_it_not_known_and_say_how_many_it_takes():
    found = answer(study(*sides_at_64(8.0, 9.0, jobs=3)))
    assert found.verdict == "Not known yet"
    assert "The fastest is not known yet: g5.xlarge leads c5.2xlarge by 1.1×" in found.sentence
    assert found.cautions == [
        "A target has only 3 jobs to go by. Use at least 6 repeats: with fewer, times have no "
        "interval, and no target is called the better."
    ]


def test_noise_leaves_it_not_known_and_says_how_much_there_is():
    found = answer(study(*sides_at_64(10.0, 10.1)))
    assert found.verdict == "c5.2xlarge in dollars where that is known"
    assert found.cautions == [
        "Where it is not known yet, equal jobs may differ by up to 4.0 %: more repeats would tell."
    ]


def test_one_cpu_in_place_of_a_gpu_is_no_comparison():
    found = study(on_laptop(GPU, {64: 10.0}), on_laptop(CPU, {64: 10.1}))
    (duel,) = found.duels
    note = "not comparable: both ran on the same CPU, AMD Ryzen 7 PRO 7840U"
    noise = duel.noise.model_copy(update={"note": note})
    found = found.model_copy(update={"duels": (duel.model_copy(update={"noise": noise}),)})
    told = answer(found)
    assert told.verdict == "Not comparable"
    assert told.sentence == "Both ran on the same CPU, AMD Ryzen 7 PRO 7840U."
    assert told.cautions == []
    assert terminal(own_job_report(found)).count(" not comparable ") == 2


def test_a_side_whose_check_failed_is_named_with_why_below():
    problem = "1 of 6 jobs failed: its check ended with 1"
    cpu = side(CPU, {64: 16.0, 256: None}, problems={256: problem})
    report = own_job_report(study(side(GPU, {64: 8.0, 256: 10.0}), cpu))
    ((_, found),) = first_screen(report).own_jobs
    assert found.cautions == ["Without a figure: c5.2xlarge at size 256; why is told below."]
    for shown in (render_html(report), terminal(report)):
        assert f"Not compared: c5.2xlarge at size 256: {problem}" in shown


def test_a_side_that_cannot_be_pooled_is_named():
    refused = side(CPU, {}, refused="its jobs ran in different environments")
    report = own_job_report(study(side(GPU, {64: 8.0}), refused))
    ((_, found),) = first_screen(report).own_jobs
    assert found.verdict == "Nothing to compare"
    assert "g5.xlarge at size 64: 8.0 s [7.8, 8.2], $0.00224" in found.sentence
    assert found.cautions == ["Without a figure: c5.2xlarge; why is told below."]
    assert "Not compared: c5.2xlarge: its jobs ran in different environments" in terminal(report)


def test_nothing_measured_is_not_known():
    none = side(GPU, {64: None}, problems={64: "none of its jobs left a result"})
    found = answer(study(none))
    assert (found.verdict, found.sentence) == (
        "Not known yet",
        "No job of thumbnails left a figure.",
    )


def test_cold_and_warm_jobs_are_told_apart():
    def started(start, times):
        return [side(name, of, at=lambda size: place(size, start)) for name, of in times.items()]

    warm = started("warm", {GPU: {64: 8.0}, CPU: {64: 16.0}})
    cold = started("cold", {GPU: {64: 30.0}, CPU: {64: 20.0}})
    sides = [
        one.model_copy(update={"figures": (*other.figures, *one.figures)})
        for one, other in zip(warm, cold, strict=True)
    ]
    few = [figure.model_copy(update={"jobs": 6}) for figure in sides[0].figures]
    few[0] = few[0].model_copy(update={"jobs": 5})
    sides[0] = sides[0].model_copy(update={"figures": tuple(few)})
    report = own_job_report(study(*sides))
    ((_, found),) = first_screen(report).own_jobs
    assert "g5.xlarge is the fastest" in found.sentence
    assert found.sentence.endswith("All of this on warm instances.")
    assert lines(report)["Cold or warm?"] == (
        "11 jobs ran on cold instances, apart from the others. c5.2xlarge is the "
        "fastest (1.50× [1.42, 1.60] faster than g5.xlarge)."
    )
    text = terminal(report)
    assert "Time and price, on cold instances" in text
    assert "Time and price, on warm instances" in text


def test_metrics_have_a_line_of_their_own():
    def told(value, loss):
        rate = metric("throughput", value, "images/s", usd_per_unit=estimate(1e-6))
        return {64: (rate, metric("loss", loss, "nats", higher=False))}

    found = study(
        side(GPU, {64: 8.0}, metrics=told(600.0, 0.30)),
        side(CPU, {64: 16.0}, metrics=told(300.0, 0.20)),
    )
    assert lines(own_job_report(found))[METRICS] == (
        "throughput: best on g5.xlarge (2.0× [1.9, 2.1] the next), loss: best on c5.2xlarge (1.50× "
        "[1.42, 1.60] the next)."
    )
    assert METRICS not in lines(own_job_report(two_sides()))


def test_trust_is_the_owners_word_and_the_noise():
    assert trust([two_sides()]) == (
        "All results that count were checked by exit code alone. 4 of 4 comparisons of times stand "
        "above the noise from job to job."
    )
    checked = {"each": {"checked_by": ("command", "checksum")}}
    assert trust([study(*sides_at_64(8.0, 9.0, **checked))]).startswith(
        "All results that count were checked by a check command and checksum."
    )


def test_two_cpu_queues_are_no_gpu_and_cpu():
    report = own_job_report(two_sides(TWO_CPUS))
    for shown in (render_html(report), terminal(report)):
        assert QUESTION in shown
        assert "GPU pay off" not in shown
        assert "GPU target" not in shown


def test_the_list_of_runs_has_the_answer_and_all_targets():
    summary = summarize(own_job_report(two_sides()))
    assert summary.verdict == "It depends on the size"
    assert (summary.suites, summary.gpus, summary.cpus) == (("job-thumbnails",), (GPU,), (CPU,))


def test_a_report_of_own_jobs_survives_and_older_ones_read():
    report = own_job_report(two_sides())
    assert Report.model_validate_json(render_json(report)) == report
    older = report.model_dump(mode="json", exclude={"own_jobs"}) | {"report_version": 5}
    assert Report.model_validate(older).own_jobs == ()


def test_the_question_names_the_job():
    assert question(two_sides(name="nightly")) == "Which of its targets runs nightly best?"
    assert MINIMUM_SAMPLES == 6  # which the texts above name


def test_several_jobs_of_a_run_have_an_answer_each():
    told = {64: (metric("throughput", 600.0, "images/s"),)}
    found = [
        study(*sides_at_64(8.0, 16.0, metrics=told), name=name)
        for name in ("nightly", "thumbnails")
    ]
    report = own_job_report(*found)
    assert [asked for asked, _ in first_screen(report).own_jobs] == [
        "Which of its targets runs nightly best?",
        "Which of its targets runs thumbnails best?",
    ]
    assert lines(report)[METRICS].startswith("nightly: throughput: not known yet. thumbnails: ")
    page = render_html(report)
    assert 'aria-labelledby="own-job-2"' in page
    assert "<h1>nightly and 1 more on g5.xlarge, c5.2xlarge</h1>" in page


def test_an_axis_keeps_its_own_capitals():
    assert "BatchSize" in terminal(own_job_report(two_sides(axis="batchSize")))
