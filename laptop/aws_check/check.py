"""State shared by a check's steps: the account, the Terraform stacks, and their outputs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from batchmark.aws.boto_clients import Clients
from batchmark.checks.records import Check as Answer
from batchmark.core.config import VARIABLE, Config, parse_config
from batchmark.core.prices import SECONDS_PER_HOUR, PriceTable
from laptop.aws_check.account import Account
from laptop.aws_check.estimate import Cost, Use
from laptop.aws_check.inputs import VARIABLES, inputs_of
from laptop.aws_check.step import NotCheckedError, Seen, Step, StepError
from laptop.private_files import make_private
from laptop.processes import Processes
from laptop.stack import ROOT, TERRAFORM_DATA
from laptop.terraform import Terraform

# Parts of terraform/ to copy, without the user's own inputs, state or providers.
NOT_COPIED = shutil.ignore_patterns(
    *("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".terraform", "*override.tf"),
    *("examples", "tests"),
)
INPUTS = "check.auto.tfvars.json"  # read by every Terraform command
STOP_SECONDS = 300.0  # how long Terraform may take to record resources under way after an interrupt
LOCK_TIMEOUT = "10m"  # how long to wait for a Terraform that outlived an earlier check

T = TypeVar("T")


@dataclass(frozen=True)
class Check:
    """A check and its folder, which contains a copy of the Terraform code that it applies."""

    account: Account
    folder: Path
    clients: Clients
    prices: PriceTable
    say: Callable[[str], None]
    image: str | None = None
    parts: tuple[Part, ...] = ()

    @cached_property
    def terraform(self) -> Terraform:
        return Terraform(
            self.folder / "terraform",
            data_dir=TERRAFORM_DATA,
            state=self.folder / "terraform.tfstate",
            env=self.environment,
            log=self.folder / "logs" / "terraform.log",
            stop_seconds=STOP_SECONDS,
        )

    def terraform_of(self, stack: str) -> Terraform:
        """Return the object that runs Terraform in an optional stack."""
        return Terraform(
            self.folder / "terraform" / "stacks" / stack,
            data_dir=TERRAFORM_DATA / stack,
            state=self.folder / f"terraform.tfstate.{stack}",
            env=self.environment,
            log=self.folder / "logs" / f"terraform-{stack}.log",
            stop_seconds=STOP_SECONDS,
        )

    @property
    def stacks(self) -> list[Terraform]:
        """The optional stacks in the order they are applied."""
        return [self.terraform_of(part.stack) for part in self.parts if part.stack]

    @cached_property
    def processes(self) -> Processes:
        """Programs that run during the check; they are stopped when it ends."""
        return Processes(self.folder, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the check's region, minus other Terraform settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TF_VAR_", "TF_WORKSPACE", "TF_CLI_ARGS"))
            or name == "TF_CLI_ARGS_init"  # may name the source of providers
        }
        return {**kept, "AWS_REGION": self.account.region}

    def copy_terraform(self) -> None:
        """Copy all stacks, so that destroy uses the applied code even if the original changes."""
        make_private(self.folder)
        shutil.copytree(ROOT / "terraform", self.folder / "terraform", ignore=NOT_COPIED)
        self.pin()

    def pin(self, **inputs: Any) -> None:
        """Set inputs for the core stack, in addition to those set for every check."""
        more = (part.core_inputs(self.account) for part in self.parts)
        self._pinned.write_text(json.dumps(inputs_of(self.account, more) | inputs, indent=2))

    def pinned(self, name: str) -> Any:
        """Return the value of an input for the core stack."""
        return json.loads(self._pinned.read_text())[name]

    @property
    def _pinned(self) -> Path:
        return self.folder / "terraform" / INPUTS

    @cached_property
    def config(self) -> Config:
        """The configuration Terraform published; cached, so use it only after the last apply."""
        return parse_config(self.published(VARIABLE))

    def published(self, variable: str) -> str:
        """Return the value of a variable that Terraform published for Airflow."""
        parameter = self.clients("ssm").get_parameter(Name=f"{VARIABLES}/{variable}")
        return str(parameter["Parameter"]["Value"])

    def wait(self, ask: Callable[[], T | None], seconds: float, missing: Callable[[], str]) -> T:
        """Poll until `ask` returns a truthy value, and return that value.

        Raises:
            StepError: `ask` returned no such value within `seconds`; `missing` returns the start of
                the message.
        """
        deadline = time.monotonic() + seconds
        while not (answer := ask()):
            if time.monotonic() > deadline:
                raise StepError(f"{missing()} after {seconds:.0f} s")
            time.sleep(5 if self.account.on_aws else 0.5)
        return answer

    def usd(self, instance_type: str, seconds: float) -> float:
        """Return an instance's On-Demand cost for `seconds`; 0 if unknown or on a local cloud."""
        price = self.prices.on_demand.get(instance_type, 0.0) if self.account.on_aws else 0.0
        return price * seconds / SECONDS_PER_HOUR


@dataclass(frozen=True)
class Part:
    """An optional part of a check, selected by `WITH=`.

    `stack` is a folder in terraform/stacks that one of the steps applies; it is destroyed before
    the core stack. `programs` must be on the PATH for a check on AWS.
    """

    name: str
    uses: tuple[Use, ...]
    steps: Callable[[Check], list[Step]]
    core_inputs: Callable[[Account], dict[str, Any]] = lambda _: {}
    beside: tuple[Cost, ...] = ()
    stack: str | None = None
    programs: tuple[str, ...] = ()


def judge_answers(answers: Iterable[Answer]) -> Seen:
    """Summarise the environment check's results as what a step saw.

    Raises:
        StepError: at least one check failed.
        NotCheckedError: nothing could be checked.
    """
    found = list(answers)
    told = [f"{one.target}: {one.seen} {one.remedy}".strip() for one in found]
    failed = [text for text, one in zip(told, found, strict=True) if one.status == "fail"]
    if failed:
        raise StepError(" ".join(failed))
    if all(one.status == "not checked" for one in found):
        raise NotCheckedError(" ".join(told), passes=True)
    return Seen(" ".join(dict.fromkeys(told)))
