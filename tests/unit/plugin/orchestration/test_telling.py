"""What tasks tell goes through the log, line by line."""

import logging

import pytest

from batchmark.orchestration.telling import console, tell


@pytest.fixture(autouse=True)
def every_line_counts(caplog):
    caplog.set_level(logging.INFO, "batchmark.task")


def test_each_line_is_a_record_of_its_own_and_no_format(caplog):
    tell("one\ntwo", 3, "")
    assert caplog.messages == ["one", "two", "3", ""]


def test_a_table_is_told_in_whole_lines(caplog):
    lines = console(20)
    lines.print("a line", end="")
    assert caplog.messages == []
    lines.print(" and its end")
    assert caplog.messages == ["a line and its end"]
