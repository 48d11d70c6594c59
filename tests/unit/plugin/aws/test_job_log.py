"""How much of a log is read, given to a real client by botocore's stubber."""

import pytest

from batchmark.aws.job_description import LogLocation
from batchmark.aws.job_log import EVENT_BYTES, last_lines, log_end, marked_lines
from tests.stand_ins.stubbed_clients import StubbedClients

WHERE = LogLocation("g", "s")
LEFT_OUT = "(earlier lines are omitted; see log stream s in log group g)\n"


def end_of(*pages, **limit):
    """The end of a log of these pages, the last one first; all of them are asked for."""
    clients = StubbedClients("us-east-1")
    asked = {"logGroupName": "g", "logStreamName": "s", "startFromHead": False}
    for number, lines in enumerate(pages):
        following = f"b{min(number + 1, len(pages) - 1)}"
        page = {"events": [{"message": line} for line in lines], "nextBackwardToken": following}
        clients.answer("logs", "get_log_events", page, dict(asked))
        asked["nextToken"] = following
    text = log_end(clients("logs"), WHERE, **limit)
    clients.assert_all_was_asked()
    return text


def test_a_log_is_read_backwards_until_cloudwatch_repeats_its_token_or_has_none():
    assert end_of(["d", "e"], ["c"], ["a", "b"], []) == "a\nb\nc\nd\ne\n"
    assert end_of(["b"], [], ["a"], []) == "a\nb\n", "an empty page is not the beginning"
    assert end_of(["a\ud800", "µ"], []) == "a?\nµ\n", "what is no text keeps no line back"
    clients = StubbedClients("us-east-1")
    clients.refuse("logs", "get_log_events", "ResourceNotFoundException")
    assert log_end(clients("logs"), WHERE) == ""


FOUR_LINES = 4 * (2 + EVENT_BYTES)


@pytest.mark.parametrize(
    ("pages", "most_bytes", "kept"),
    [
        ([["ee", "ff"], ["bb", "cc", "dd"]], FOUR_LINES, f"{LEFT_OUT}cc\ndd\nee\nff\n"),
        ([["ee", "ff"], ["cc", "dd"], []], FOUR_LINES, "cc\ndd\nee\nff\n"),
        ([["a", "x" * 20, "b"]], 20 + EVENT_BYTES, f"{LEFT_OUT}b\n"),
    ],
)
def test_of_a_long_log_the_end_is_kept_and_no_more_is_read(pages, most_bytes, kept):
    assert end_of(*pages, most_bytes=most_bytes) == kept


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        *(("", []), ("\n", []), ("a\n", ["a"]), ("a\n\nb\n \n", ["a", "b"])),
        ("a\nb\nBATCHMARK_METRIC x\n", ["b", "BATCHMARK_METRIC x"]),
    ],
)
def test_the_last_lines_of_a_text(text, lines):
    assert last_lines(text, 2) == lines
    by_the_wrapper = "BATCHMARK_METRIC_FILE {}\n" * 10_000 + "BATCHMARK_JOB end 3 1\n"
    assert last_lines(text + by_the_wrapper, 2) == lines


OF_STREAM = {"logGroupName": "g", "logStreamNames": ["s"]}
MARKED_LINES = OF_STREAM | {"filterPattern": "%BATCHMARK_METRIC|BATCHMARK_JOB%"}
END, METRIC, FILE = "BATCHMARK_JOB end 0", "BATCHMARK_METRIC {}", "BATCHMARK_METRIC_FILE x"
ELSEWHERE = [f"\x1b[32m{METRIC}", "BATCHMARK_METRIC", f"a {FILE}"]


def marked_of(*pages):
    """The marked lines of a log that CloudWatch finds in these pages; all are asked for."""
    clients = StubbedClients("us-east-1")
    events = [{"events": [{"timestamp": 7, "message": line} for line in page]} for page in pages]
    clients.answer_pages("logs", "filter_log_events", events, MARKED_LINES, "nextToken")
    found = [line.text for line in marked_lines(clients("logs"), WHERE)]
    clients.assert_all_was_asked()
    return found


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        # On some pages of several.
        ([[], [END], [], [METRIC], []], [END, METRIC]),
        # Facts stand only at the begin of a line.
        ([[f"see {END}", "BATCHMARK_METRICS=/m", FILE]], [FILE]),
        ([["BATCHMARK_JOBS", "BATCHMARK_JOB cpu \ud800"]], ["BATCHMARK_JOB cpu ?"]),
        # An event of several lines.
        ([[f"a\n{END}\r\n BATCHMARK_JOB no\n{METRIC}\n"]], [END, METRIC]),
        # Behind a progress bar, and elsewhere in a line.
        ([[f"10 %|#\r{METRIC}\r20 %|##", f"[rank0]:{METRIC}"]], [METRIC, f"[rank0]:{METRIC}"]),
        ([ELSEWHERE], ELSEWHERE),
    ],
)
def test_marked_lines_are_found(pages, found):
    assert marked_of(*pages) == found


def test_marked_lines_may_have_their_numbers_in_the_log_and_end_if_it_is_endless(caplog):
    clients = StubbedClients("us-east-1")
    texts = ["hello", "one\ntwo\nBATCHMARK_METRIC {}\n", "1 %\r2 %", "BATCHMARK_METRIC no"]
    page = {"events": [{"timestamp": 1, "message": text} for text in texts]}
    clients.answer("logs", "filter_log_events", page, OF_STREAM)
    found = marked_lines(clients("logs"), WHERE, numbered=True)
    numbered = [(line.number, line.text) for line in found]
    assert numbered == [(4, "BATCHMARK_METRIC {}"), (6, "BATCHMARK_METRIC no")]
    clients = StubbedClients("us-east-1")
    for _ in range(3):
        clients.answer("logs", "filter_log_events", {"events": [], "nextToken": "t"})
    assert list(marked_lines(clients("logs"), WHERE, most_pages=3)) == []
    assert "Stopped reading after 3 pages of log stream s" in caplog.text
