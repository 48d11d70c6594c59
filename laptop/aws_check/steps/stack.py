"""Runs the Terraform steps (plan, apply, no-op re-plan) and checks the Batch environments."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from python_terraform import IsFlagged

from batchmark.aws.batch_targets import BatchEnvironment
from batchmark.checks.environment import check_compute_environments, check_queues
from batchmark.core.config import Config, Target
from laptop.aws_check.check import LOCK_TIMEOUT, Check, judge_answers
from laptop.aws_check.step import Seen, StepError
from laptop.errors import TerraformError
from laptop.stack import init_one_at_a_time
from laptop.terraform import Terraform

PLANNED = re.compile(r"Plan: .*?(\d+) to add, (\d+) to change, (\d+) to destroy")
INVALID = "unexpected state 'INVALID'"
ROLE_SECONDS = 60  # judgment: AWS doesn't say how long a new role takes to propagate
# Remedies in the warnings of Terraform's check of service-linked roles, which it wraps over lines.
ROLES = re.compile(r"aws iam create-service-linked-role --aws-service-name [^\s;]+")
APPLIED = re.compile(r"Apply complete! Resources: .+?\.")


def plan(check: Check) -> Seen:
    init_one_at_a_time(check.terraform)
    told, (added, *others) = _plan(check)
    if not added or any(others):
        raise StepError(told)
    return Seen(told)


def apply(check: Check) -> Seen:
    return apply_by(check, check.terraform)


def apply_by(check: Check, terraform: Terraform) -> Seen:
    """Apply; retry once if an environment is INVALID, as a new role may still be propagating."""
    try:
        return _apply(terraform)
    except TerraformError as first:
        if INVALID not in str(first):
            raise
        check.say(
            "retrying in a minute, because a new role may not have propagated everywhere yet: "
            f"{first}"
        )
        time.sleep(ROLE_SECONDS if check.account.on_aws else 0)
        return Seen(f"{_apply(terraform).text}, at the second attempt (first: {INVALID})")


def _apply(terraform: Terraform) -> Seen:
    result = terraform.with_inputs("apply", auto_approve=IsFlagged, lock_timeout=LOCK_TIMEOUT)
    found = APPLIED.search(result.stdout)
    return Seen(found[0] if found else "applied")


def replan(check: Check) -> Seen:
    told, changes = _plan(check)
    if any(changes):
        raise StepError(told)
    return Seen(told)


def environments(check: Check) -> Seen:
    return environments_of(check, check.config, check.config.targets)


def environments_of(check: Check, config: Config, targets: Mapping[str, Target]) -> Seen:
    asked = BatchEnvironment(config, targets, check.clients)
    return judge_answers((*check_compute_environments(asked), *check_queues(asked)))


def _plan(check: Check) -> tuple[str, tuple[int, ...]]:
    """Run a plan; return a summary, including any missing roles, and a count per kind of change."""
    result = check.terraform.with_inputs("plan", lock_timeout=LOCK_TIMEOUT)
    found = PLANNED.search(result.stdout)
    changes = tuple(map(int, found.groups())) if found else (0, 0, 0)
    told = found[0] if found else "no changes"
    if roles := ROLES.findall(" ".join(result.stdout.split())):
        told += f"; the account lacks service-linked roles: {'; '.join(roles)}"
    return told, changes
