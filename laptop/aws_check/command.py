"""Runs `make aws-check`: shows the cost, asks for confirmation, runs the steps, and cleans up."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import boto3
from botocore.exceptions import BotoCoreError

from batchmark.aws.batch_targets import NO_ANSWER
from batchmark.aws.boto_clients import patient_clients
from batchmark.core.formatting import count, usd
from laptop.aws_check.account import FREE_TIER_REGION, find_account, prices_of, refuse_free_plan
from laptop.aws_check.check import Check, Part
from laptop.aws_check.credentials import CHECK_HOURS, explain_expiry, refuse_ending
from laptop.aws_check.engine import pull, refuse_without_image
from laptop.aws_check.estimate import USES, Use, estimate, refuse_above
from laptop.aws_check.state import State
from laptop.aws_check.step import Step, not_run, take
from laptop.aws_check.steps.clean_up import BY_HAND, destroy, leftovers, nothing_left
from laptop.aws_check.steps.made_by_aws import only_listed
from laptop.aws_check.steps.parts import PARTS
from laptop.aws_check.steps.sequence import steps_of
from laptop.errors import LaptopError
from laptop.session import Clock, exclusive
from laptop.stack import reach_loopback_directly

Say = Callable[[str], None]


class CheckOptions(NamedTuple):
    """The user's options, exactly as typed."""

    region: str | None
    budget: str = "2"
    image: str | None = None
    parts: str = ""
    resume: bool = False
    destroy: bool = False
    keep: bool = False
    yes: bool = False


def aws_check(order: CheckOptions, folder: Path) -> None:
    """Check an AWS account, keeping each check's state in `folder`.

    Raises:
        LaptopError: the check is refused, or a step failed; the message says what to do.
    """
    reach_loopback_directly()
    budget = parse_budget(order.budget)
    parts = parse_parts(order.parts)
    if order.resume and order.destroy:
        raise LaptopError("RESUME=yes and DESTROY=yes can't be combined: set only one of them")
    region = order.region or usual_region()
    clients = patient_clients(region)
    account = find_account(clients, region)
    with exclusive(folder / "aws-check"):
        home = folder / f"{account.id}-{account.region}"
        state = State.of(home)
        unfinished = state if state and not state.kept.over else None
        refuse_by_state(order, home, unfinished)
        if unfinished:
            parts = parse_parts(",".join(unfinished.kept.parts))
        check = Check(
            account=account,
            folder=home,
            clients=clients,
            prices=prices_of(region, {use.instance_type for use in uses_of(parts)}),
            say=even_unheard(Clock().say),
            image=unfinished.kept.image if unfinished else order.image,
            parts=parts,
        )
        check.terraform.check()
        if unfinished and (order.destroy or unfinished.kept.ending):
            ends = end_steps(check)
            conclude(ends, unfinished, check)
            tell(check, unfinished, folder)
            refuse_failures(ends, unfinished)
            return
        if unfinished is None:
            begin(check, order, budget)
            # Before loading the state: an unfinished check can always be destroyed.
            check.copy_terraform()
            named = tuple(part.name for part in parts)
            unfinished = State.begin_in(home, order.image, named)
        run(check, unfinished, folder, keep=order.keep)


def begin(check: Check, order: CheckOptions, budget: float) -> None:
    """Refuse a check that can't run here; show what it creates and costs, and ask for confirmation.

    Raises:
        LaptopError: the check is refused, or the user did not confirm it.
    """
    stacks = sum(part.stack is not None for part in check.parts)  # an hour each, inferred
    if check.account.on_aws:
        refuse_ending(check.say, CHECK_HOURS + stacks)
        refuse_without_image(order.image)
        refuse_without_programs(check.parts)
        refuse_free_plan(patient_clients(FREE_TIER_REGION))
    beside = [cost for part in check.parts for cost in part.beside]
    found = estimate(check.prices, uses_of(check.parts), beside)
    refuse_above(found, budget)
    refuse_beside_another(check)
    check.say(f"account {check.account.id}, {check.account.region}")
    check.say("creates a network, targets, a bucket, roles and alarms; runs about ten short jobs")
    if named := ", ".join(part.name for part in check.parts):
        check.say(f"includes the optional parts: {named}")
    where = "costs" if check.account.on_aws else "is free on a local cloud; in AWS it would cost"
    check.say(f"{where} up to {usd(found.usd)} (prices: {found.prices})")
    for part in found.parts:
        check.say(f"  {part}")
    check.say(
        f"takes one to {2 + stacks} hours in AWS; at the end, destroys everything it created, "
        "unless KEEP=yes"
    )
    if not order.yes and not confirmed():
        raise LaptopError("cancelled; nothing was created")
    if check.account.on_aws and order.image:
        check.say(f"pulling {order.image}")
        pull(order.image)  # first, as everything else depends on it
    shutil.rmtree(check.folder, ignore_errors=True)


def uses_of(parts: Iterable[Part]) -> list[Use]:
    return [*USES, *(use for part in parts for use in part.uses)]


def refuse_without_programs(parts: Iterable[Part]) -> None:
    """Raise LaptopError if a program that an optional part needs on AWS is missing."""
    for part in parts:
        for program in part.programs:
            if not shutil.which(program):
                raise LaptopError(
                    f"{program} is needed for WITH={part.name} but is not on the PATH: install it"
                )


def refuse_beside_another(check: Check) -> None:
    """Raise LaptopError if the region has another check's resources, or can't be searched."""
    try:
        there = leftovers(check.clients)
    except NO_ANSWER as error:
        raise LaptopError(
            "can't search the account for leftover resources, so there would be no way to verify "
            f"the clean-up: {error}"
        ) from error
    if not only_listed(there):
        raise LaptopError(
            f"{check.account.region} contains resources from a check that is not recorded in "
            f"{check.folder}: {', '.join(there)}. Continue that check from the folder that holds "
            "its state, or delete the resources manually"
        )


def run(check: Check, state: State, folder: Path, *, keep: bool) -> None:
    """Run the steps, and destroy everything afterwards unless `keep` is set."""
    steps = steps_of(check)
    ends = end_steps(check)
    try:
        take(steps, state, check.say)
    finally:
        check.processes.stop()
        for step in steps:
            if step.name not in state.outcomes:
                state.end(not_run(step, "the check was interrupted before this step"))
        if keep:
            check.say(
                f"everything is kept and continues to cost money; run {BY_HAND} to destroy it"
            )
        else:
            conclude(ends, state, check)
        tell(check, state, folder)
        if not keep:
            refuse_failures(ends, state)
    refuse_failures(steps, state)


def conclude(ends: Sequence[Step], state: State, check: Check) -> None:
    """Destroy everything that the check created, and look for leftovers."""
    state.is_ending()
    check.say("destroying everything that was created; this can't be interrupted")
    take(ends, state, check.say)
    if all(state.outcomes[step.name].status == "ok" for step in ends):
        state.is_over()


def tell(check: Check, state: State, folder: Path) -> None:
    """Write the report, and print its summary and location."""
    # Imported late: loading charts takes seconds, in which an error could already be shown.
    from laptop.aws_check.report import report_of, write_report

    report = report_of(check, state)
    files = write_report(report, folder)
    check.say(report.summary)
    check.say(
        f"report to attach to an issue (it identifies no account or person): {files.page}, "
        f"{files.json}"
    )


def end_steps(check: Check) -> list[Step]:
    """Return the steps that end a check, which run even if they succeeded before."""
    told = explain_expiry(check.clients, BY_HAND)
    looked = told(partial(nothing_left, check))
    return [
        Step("destroy", "no error", told(partial(destroy, check)), again=True),
        Step("nothing left", "no resources by tag or name", looked, again=True),
    ]


def refuse_failures(steps: Sequence[Step], state: State) -> None:
    """Raise LaptopError if one of these steps failed."""
    failed = [step.name for step in steps if state.outcomes[step.name].status == "failed"]
    if failed:
        raise LaptopError(f"{count(len(failed), 'step')} failed: {', '.join(failed)}")


def refuse_by_state(order: CheckOptions, home: Path, unfinished: State | None) -> None:
    """Raise LaptopError if an unfinished check is in the way, or if one is needed but missing."""
    if unfinished is None and (order.resume or order.destroy):
        raise LaptopError(f"there is no unfinished check in {home} to continue or destroy")
    if unfinished and not (order.resume or order.destroy):
        began = f"{unfinished.kept.began_at:%Y-%m-%d %H:%M %Z}"
        raise LaptopError(
            f"a check started at {began} is unfinished: continue it with RESUME=yes, or remove "
            "what it created with DESTROY=yes"
        )


def even_unheard(say: Say) -> Say:
    """Wrap `say` to ignore a closed terminal, so that the clean-up still runs."""

    def told(text: str) -> None:
        with suppress(OSError):
            say(text)

    return told


def usual_region() -> str:
    """Return the region in the user's AWS settings."""
    try:
        region = boto3.Session().region_name
    except BotoCoreError as error:
        raise LaptopError(f"the AWS settings can't be used: {error}") from error
    if not region:
        raise LaptopError("no region is set: choose one, for example with REGION=us-east-1")
    return str(region)


def parse_budget(text: str) -> float:
    """Parse the budget as an amount in USD."""
    try:
        budget = float(text)
    except ValueError:
        budget = math.nan
    if not 0 < budget < math.inf:
        raise LaptopError(
            f"BUDGET is {text!r}: it must be an amount in USD above 0, such as BUDGET=2"
        )
    return budget


def parse_parts(text: str) -> tuple[Part, ...]:
    """Look up the optional parts named in a comma-separated list."""
    named = tuple(dict.fromkeys(filter(None, text.split(","))))
    if unknown := [name for name in named if name not in PARTS]:
        raise LaptopError(
            f"unknown parts in WITH=: {', '.join(unknown)}; known: {', '.join(PARTS)}"
        )
    return tuple(PARTS[name] for name in named)


def confirmed() -> bool:
    """Ask the user whether to continue, and return the answer.

    Raises:
        LaptopError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise LaptopError("can't ask for confirmation without a terminal: confirm with YES=yes")
    return input("Continue? [y/N] ").strip().lower() in ("y", "yes")
