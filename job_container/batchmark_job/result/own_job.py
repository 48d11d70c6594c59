"""Records for a whole job that was not written for Batchmark and is observed from outside."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from batchmark_job.result.values import Count, ExitCode, Few, Model, Name, Seconds, Text, optional

# Parameters that name a row, besides the job's own axis.
START, METRIC, UNIT, BETTER = "start", "metric", "unit", "better"
COLD = "cold"  # a value of START
HIGHER, LOWER = "higher", "lower"  # values of BETTER
UNKNOWN = "unknown"  # replaces a required text that a user's own job did not report

Start = Literal["cold", "warm"]


class OwnersCheck(Model):
    """The outcome of the check that the job's owner chose for its result."""

    kind: Literal["exit_code", "command", "checksum"]
    passed: bool
    detail: Text | None = optional("what the check found, if it failed")
    output_sha256: Name | None = optional(
        "checksum of the output file that the owner specified; null if there is none"
    )
    is_wanted_sha256: bool = Field(
        default=False,
        description="whether the owner specified that checksum, so sides may differ in it",
    )


class BadLine(Model):
    """A metric line that can't be used, and why."""

    source: Literal["log", "file"]
    number: Count = Field(
        description="position among the job's metric lines from that source, starting at 1"
    )
    log_line: Count | None = optional(
        "line number in the log, starting at 1; null for a file, or if the log is too long to count"
    )
    text: Text
    problem: Text


class OwnJob(Model):
    """A whole job as seen by Batch, its host and its own log lines; unknown values are null."""

    image: Name | None = Field(description="name of the image in its job definition")
    command: Text | None = Field(
        description="command that ran; null if it was the image's default command"
    )
    wrapped: bool = Field(
        description="whether the command ran in a shell that reported its start and end"
    )
    exit_code: ExitCode | None
    waiting_seconds: Seconds | None = Field(
        description="time from submission to start; null if Batch reported impossible timestamps"
    )
    running_seconds: Seconds | None = Field(
        description="time from start to stop according to Batch; null if it reported impossible "
        "timestamps"
    )
    command_seconds: Seconds | None = optional("duration of the command alone")
    start: Start | None = optional(
        "warm if the instance existed before the job was submitted; null outside EC2 or if unknown"
    )
    host: Name | None = optional("ARN of its container instance")
    purchase_option: Literal["spot", "on_demand"] | None = None
    check: OwnersCheck
    bad_lines: Few[BadLine] = ()
    bad_lines_left_out: Count = 0
    metrics_left_out: Count = Field(
        default=0, description="number of metric lines dropped because there were too many"
    )
    doubts: Few[Text] = optional(
        "reasons to read its figures with care, such as a log that lost lines", ()
    )
