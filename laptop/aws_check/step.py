"""A step of a check: what it expects, what it saw, what it cost, and what it depends on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import Field

from batchmark.core.formatting import usd
from batchmark.core.record import Record
from laptop.errors import LaptopError

Status = Literal["ok", "failed", "not checked"]


class Seen(NamedTuple):
    """What a step saw, and what it cost."""

    text: str
    usd: float = 0.0


class StepError(LaptopError):
    """Raised if a step sees something unexpected; `usd` is what it has cost so far."""

    def __init__(self, text: str, usd: float = 0.0) -> None:
        super().__init__(text)
        self.usd = usd


class NotCheckedError(LaptopError):
    """Raised if a step can't be checked here; with `passes`, dependent steps still run."""

    def __init__(self, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.passes = passes


class Outcome(Record):
    """A step's result, whether or not the step was run."""

    step: str
    expected: str
    status: Status
    seen: str
    seconds: float = Field(ge=0)
    usd: float = Field(ge=0, description="cost of the jobs' run time at On-Demand prices")
    passes: bool = Field(description="whether the steps that depend on it can run")

    def __str__(self) -> str:
        cost = f", {usd(self.usd)}" if self.usd else ""
        return f"{self.step}: {self.status} after {self.seconds:.0f} s{cost}: {self.seen}"


class Step(NamedTuple):
    """A step to run; `needs` names the earlier steps that it depends on.

    With `again`, a continued check repeats the step even if it was ok before, for example because
    it starts a program that has since ended.
    """

    name: str
    expected: str
    look: Callable[[], Seen]
    needs: tuple[str, ...] = ()
    again: bool = False


class Log(Protocol):
    """A record of the steps; each one is recorded before it creates anything."""

    @property
    def outcomes(self) -> Mapping[str, Outcome]: ...

    def begin(self, step: str) -> None: ...

    def end(self, outcome: Outcome) -> None: ...


def take(steps: Iterable[Step], log: Log, say: Callable[[str], None]) -> None:
    """Run steps in order; if one fails, only the steps that depend on it are skipped.

    Steps that were already ok are not repeated, except for those with `again`. An interrupt
    propagates, and leaves the current step recorded as unfinished.
    """
    for step in steps:
        known = log.outcomes.get(step.name)
        if known and known.status == "ok" and not step.again:
            continue
        log.begin(step.name)
        outcome = _outcome(step, log.outcomes)
        log.end(outcome)
        say(str(outcome))


def not_run(step: Step, reason: str) -> Outcome:
    """Return the outcome for a step that was not run."""
    return _of(step, "not checked", reason)


def _outcome(step: Step, outcomes: Mapping[str, Outcome]) -> Outcome:
    blocking = [name for name in step.needs if name not in outcomes or not outcomes[name].passes]
    if blocking:
        return not_run(step, f"it depends on steps that were not ok: {', '.join(blocking)}")
    began = time.monotonic()
    try:
        seen = step.look()
    except NotCheckedError as reason:
        return _of(step, "not checked", str(reason), began, passes=reason.passes)
    except StepError as error:
        return _of(step, "failed", str(error), began, cost=error.usd)
    except (LaptopError, BotoCoreError, ClientError) as error:
        return _of(step, "failed", str(error), began)
    except Exception as error:  # a bug in one step must not keep the others from running
        return _of(step, "failed", f"{type(error).__name__}: {error}", began)
    return _of(step, "ok", seen.text, began, cost=seen.usd, passes=True)


def _of(
    step: Step,
    status: Status,
    seen: str,
    began: float | None = None,
    *,
    cost: float = 0.0,
    passes: bool = False,
) -> Outcome:
    return Outcome(
        step=step.name,
        expected=step.expected,
        status=status,
        seen=seen,
        seconds=0.0 if began is None else time.monotonic() - began,
        usd=cost,
        passes=passes,
    )
