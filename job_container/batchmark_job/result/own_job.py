"""What is known of a whole job that was not written for Batchmark, observed from outside."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from batchmark_job.result.values import Count, ExitCode, Few, Model, Name, Seconds, Text, optional

# Parameters that name a row, besides the job's own axis.
START, METRIC, UNIT, BETTER = "start", "metric", "unit", "better"
COLD = "cold"  # a value of START
HIGHER, LOWER = "higher", "lower"  # values of BETTER
UNKNOWN = "unknown"  # replaces a required text that an own job did not report

Start = Literal["cold", "warm"]


class OwnersCheck(Model):
    """The owner's check of whether the job's result is correct."""

    kind: Literal["exit_code", "command", "checksum"]
    passed: bool
    detail: Text | None = optional("what was seen where it did not pass")
    output_sha256: Name | None = optional("of the output that the owner named; null without one")


class BadLine(Model):
    """A metric line that can't be used, and why."""

    source: Literal["log", "file"]
    number: Count = Field(description="among the job's marked lines of that source, from 1")
    log_line: Count | None = optional(
        "among all lines of the log, from 1; null of a file, and where the log is too long to count"
    )
    text: Text
    problem: Text


class OwnJob(Model):
    """A whole job as seen by Batch, its host and its own log lines; null if unknown."""

    image: Name | None = Field(description="as its definition names it")
    command: Text | None = Field(description="as it ran; null for the image's own")
    wrapped: bool = Field(description="it ran below a shell that told when it began and ended")
    exit_code: ExitCode | None
    waiting_seconds: Seconds | None = Field(
        description="from its submission to its start; null where Batch's times can't be"
    )
    running_seconds: Seconds | None = Field(
        description="from its start to its stop, as Batch has them; null as waiting_seconds"
    )
    command_seconds: Seconds | None = optional("of its command alone")
    start: Start | None = optional(
        "warm: its instance was there before it was submitted; null off EC2 and where nobody knows"
    )
    host: Name | None = optional("ARN of its container instance")
    purchase_option: Literal["spot", "on_demand"] | None = None
    check: OwnersCheck
    bad_lines: Few[BadLine] = ()
    bad_lines_left_out: Count = 0
    metrics_left_out: Count = Field(default=0, description="lines after the most that are kept")
    doubts: Few[Text] = optional(
        "what its figures are to be read with care for, such as a log that lost lines", ()
    )
