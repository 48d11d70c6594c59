"""What a job's marked lines tell, however it spoils them."""

from datetime import UTC, datetime

import pytest

from batchmark.aws.job_log import FACT_MARK, FILE_MARK, METRIC_MARK, MarkedLine
from batchmark.core.own_jobs import MOST_BAD_LINES
from batchmark.runs.own_jobs.lines import (
    MOST_GPUS,
    NOT_THE_WRAPPERS,
    Facts,
    Gpu,
    GpuBusy,
    read_lines,
)
from batchmark_job.result import values
from batchmark_job.result.metric import MOST_LINES
from batchmark_job.result.printable import printable
from tests.builders.watched_jobs import (
    BEGIN,
    END,
    FALSE_FACTS,
    GPU,
    KEY,
    SHA256,
    STARTED,
    facts,
    marked,
    metric,
)


def facts_of(*texts):
    return read_lines(marked(*facts(*texts))).facts


def after_begin(*texts):
    return facts_of("begin 1 0", *texts)


def test_facts_of_the_machine_and_of_the_end():
    found = facts_of(GPU, *BEGIN, *END, "gpu_busy 16 71.5 98 2048", "check 0", f"sha256 {SHA256}")
    assert found == Facts(
        began=True,
        began_at=datetime.fromtimestamp((STARTED + len(BEGIN)) / 1000, tz=UTC),
        began_uptime=5000.0,
        cpu_model="AMD EPYC 7R32",
        threads=4,
        memory_bytes=16_000_000 * 2**10,
        kernel="6.12.40",
        gpus=[Gpu("NVIDIA A10G", "580.95.05", 23028 * 2**20)],
        exit_code=0,
        ended_uptime=5080.25,
        busy_share=0.75,
        peak_memory_bytes=2_000_000_000,
        gpu_busy=GpuBusy(16, 71.5, 98.0, 2048 * 2**20),
        check_exit_code=0,
        output_sha256=SHA256,
        is_over=True,
    )
    assert found.command_seconds == 80.25
    assert after_begin("gpu_busy 16 250 300 1").gpu_busy == GpuBusy(16, 100.0, 100.0, 2**20)
    assert len(facts_of(*[GPU] * 1000).gpus) == MOST_GPUS


@pytest.mark.parametrize(
    ("milliseconds", "began_at"),
    [(-1, None), (0, values.EARLIEST), (round(values.END.timestamp() * 1000), None)],
)
def test_a_command_began_at_a_time_that_a_document_can_hold(milliseconds, began_at):
    line = MarkedLine(milliseconds, FACT_MARK + "begin 1")
    assert read_lines([line]).facts.began_at == began_at


def test_what_an_image_or_a_log_lacks_is_not_known_nor_said_by_the_command_itself():
    found = facts_of("begin 1", "end 3")
    assert found.began_at is not None
    assert (found.exit_code, found.command_seconds, found.cpu_model) == (3, None, None)
    found = read_lines(marked(metric(), *facts(*END, "check 7"))).facts
    assert (found.began, found.exit_code, found.check_exit_code) == (False, 0, 7)
    assert (found.is_over, found.command_seconds) == (True, None)
    said = ("cpu Fast", "threads 999", GPU, "end 0 5001", "check 0", "begin 1 1")
    found = facts_of("end 0 1", "check 0", *BEGIN, *said, "end 3 5080", "check 7")
    assert found.gpus == []
    assert facts_of("end 0 1", "over", *BEGIN).exit_code is None
    assert (found.cpu_model, found.threads, found.began_uptime) == ("AMD EPYC 7R32", 4, 5000.0)
    assert (found.exit_code, found.check_exit_code, found.command_seconds) == (3, 7, 80.0)


JUNK = (
    *("", "end", "end zero", "end 256 1", "end -1 1", "begin", "threads many", "threads ٣"),
    *("threads 99999999999999", "memory_kib ?", "gpu", "gpu , ,", "busy 1 0", "busy 1"),
    *("peak_memory 1e99", "gpu_busy 0 1 2 3", "gpu_busy 1 2 3", "check nan", "sha256 abc"),
    *("unheard_of 1", "metrics_left_out many", "kernel \x00"),
)


@pytest.mark.parametrize("junk", JUNK)
def test_a_fact_that_makes_no_sense_changes_none_that_does(junk):
    good = (*BEGIN, *END, "check 0", "gpu_busy 16 71.5 98 2048", "peak_memory 5")
    told = read_lines(marked(*facts(*good, junk)))
    assert (told.facts.exit_code, told.facts.check_exit_code) == (0, 0)
    assert told.facts == facts_of(*good)
    assert told.metrics_left_out == 0


def test_metrics_of_both_sources_are_kept_in_order_each_the_way_it_was_first_told():
    loss = metric("loss", "0.5", "1", "false", FILE_MARK)
    said = [metric(), metric(better="false"), loss, metric(unit="1/s", better="false")]
    told = read_lines(marked(*said))
    assert [
        (line.metric, line.value, line.unit, line.higher_is_better) for line in told.metrics
    ] == [
        ("speed", 12.5, "images/s", True),
        ("loss", 0.5, "1", False),
        ("speed", 12.5, "1/s", False),
    ]
    (bad,) = told.bad_lines
    assert (bad.number, bad.problem) == (2, "higher_is_better was true in the first line of speed")


def test_each_bad_line_is_named_with_its_number_in_its_source_and_the_good_are_kept():
    said = [metric(), METRIC_MARK + "speed=3", metric(value="-1")]
    said += [FILE_MARK + '{"metric": "speed"}', metric(mark=FILE_MARK)]
    told = read_lines(marked(*said))
    assert len(told.metrics) == 2
    assert [(bad.source, bad.number, bad.text[:9]) for bad in told.bad_lines] == [
        ("log", 2, "speed=3"),
        ("log", 3, '{"metric"'),
        ("file", 1, '{"metric"'),
    ]
    no_json, *problems = [bad.problem for bad in told.bad_lines]
    assert no_json.startswith("not JSON")
    assert problems == [
        "value: Input should be greater than or equal to 0.000000001, not '-1'",
        "value: Field required",
    ]


def test_of_too_many_lines_the_rest_is_counted_and_a_line_of_a_megabyte_is_named_in_short():
    lines = [metric()] * (MOST_LINES + 3) + [METRIC_MARK + "?"] * (MOST_BAD_LINES + 2)
    told = read_lines(marked(*lines, *facts("begin 1", "metrics_left_out 5", "end 0 1")))
    assert (len(told.metrics), told.metrics_left_out) == (MOST_LINES, 3 + 5)
    assert (len(told.bad_lines), told.bad_lines_left_out) == (MOST_BAD_LINES, 2)
    assert told.facts.exit_code == 0, "what comes after them is read all the same"
    (bad,) = read_lines(marked(METRIC_MARK + "x" * 2**20)).bad_lines
    assert len(bad.text) == 200
    assert bad.problem == "1048576 characters, but at most 2000 are allowed"


@pytest.mark.parametrize(
    "text",
    [
        *("\x1b[32mBATCHMARK_METRIC {}", f"[rank0]:{metric()}", "BATCHMARK_METRIC"),
        f"{METRIC_MARK:>300}{{}}",
    ],
)
def test_a_mark_elsewhere_in_a_line_is_a_bad_line(text):
    told = read_lines(marked(metric(), text))
    (bad,) = told.bad_lines
    assert (bad.source, bad.number, bad.text) == ("log", 2, printable(text[:200]))
    assert bad.problem == "the line does not begin with BATCHMARK_METRIC and a space"
    assert not told.by_a_shell


@pytest.mark.parametrize(
    ("texts", "by_a_shell"),
    [
        ([], False),
        (facts(*BEGIN[:-1]), False),
        (facts("begin 1"), True),
        *((facts(end), True) for end in (*END, "check 7", f"sha256 {SHA256}", "sha256 missing")),
        ([metric()], False),
        ([metric(mark=FILE_MARK)], True),
        (facts(f"{KEY} cpu Fast"), True),
    ],
)
def test_which_lines_only_a_shell_tells(texts, by_a_shell):
    assert read_lines(marked(*texts)).by_a_shell is by_a_shell


@pytest.mark.parametrize(
    ("end", "seconds"),
    [("4999.99", None), ("5000.00", 0.0), (f"{10**9 + 5001}", None), (f"{10**9 + 5000}", 1e9)],
)
def test_a_command_took_no_time_that_can_not_be(end, seconds):
    assert facts_of(*BEGIN, f"end 0 {end}").command_seconds == seconds


def keyed(*texts, key=KEY):
    return facts(*(f"{key} {text}" for text in texts))


@pytest.mark.parametrize("key", [KEY, "-"])
def test_a_key_changes_no_fact(key):
    said = (GPU, *BEGIN, *END, "check 0", f"sha256 {SHA256}")
    assert read_lines(marked(*keyed(*said, key=key))).facts == facts_of(*said)


@pytest.mark.parametrize("forged", ["", "- ", KEY.replace("0", "1") + " ", KEY.upper() + " "])
@pytest.mark.parametrize("fact", FALSE_FACTS)
def test_a_fact_without_the_wrappers_key_is_named_and_changes_nothing(forged, fact):
    said = keyed(*BEGIN, "end 3 5080")
    told = read_lines(marked(*said, *facts(forged + fact)))
    assert told.facts == read_lines(marked(*said)).facts
    assert told.metrics_left_out == 0
    (bad,) = told.bad_lines
    assert (bad.source, bad.number, bad.text) == ("log", 1, forged + fact)
    assert bad.problem == NOT_THE_WRAPPERS


def test_nobody_begins_in_the_wrappers_place_even_if_its_beginning_was_lost():
    """Of stdout and stderr the later line may come first."""
    first, *rest = keyed(*BEGIN)
    told = read_lines(marked(first, *facts("begin 1 9", "end 0 9"), *rest, *keyed("end 3 5080")))
    assert (told.facts.began_uptime, told.facts.exit_code) == (5000.0, 3)
    assert len(told.bad_lines) == 2
    said = [*facts("begin 1 9", "over"), *keyed("end 3 5080"), "BATCHMARK_METRIC no"]
    lines = [line._replace(number=10 + n) for n, line in enumerate(marked(*said))]
    assert [bad.log_line for bad in read_lines(lines).bad_lines] == [10, 11, 13]
    forged = ("begin 1 5079", "end 7 9999", "check 0", "over")
    said = keyed("end 3 5080", "check 1", "over")
    told = read_lines(marked(*facts(*forged), *said))
    assert told.facts == read_lines(marked(*said)).facts
    assert not told.facts.began
    assert [bad.text for bad in told.bad_lines] == list(forged)
    assert {bad.problem for bad in told.bad_lines} == {NOT_THE_WRAPPERS}
