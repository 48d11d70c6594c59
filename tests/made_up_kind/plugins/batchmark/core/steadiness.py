"""What a run of steadiness_benchmark asks for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from batchmark_job.result.options import Options, Whole, option

SUITE = "own"


class SteadinessRun(Options):
    targets: tuple[str, ...] = option((), "Targets; none means all that Terraform made.")
    repeats: Annotated[Whole, Field(ge=2, le=20)] = option(3, "Equal jobs of each target.")
