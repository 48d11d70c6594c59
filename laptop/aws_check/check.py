"""What the steps of a check share: the account, Terraform's stack in it, and what it published."""

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

# Of terraform/: no inputs, state or providers of the user's own.
NOT_COPIED = shutil.ignore_patterns(
    *("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".terraform", "*override.tf"),
    *("examples", "tests"),
)
INPUTS = "check.auto.tfvars.json"  # which every command of Terraform reads
STOP_SECONDS = 300.0  # so that what is being made gets into Terraform's state
LOCK_TIMEOUT = "10m"  # a Terraform that outlived an earlier check goes on to its end

T = TypeVar("T")


@dataclass(frozen=True)
class Check:
    """A check under way in a folder of its own, which also has the Terraform that it applies."""

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
        """Of a stack beside the core one."""
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
        """Those beside the core one, in the order of their applies."""
        return [self.terraform_of(part.stack) for part in self.parts if part.stack]

    @cached_property
    def processes(self) -> Processes:
        """Programs that run beside it; they end with it."""
        return Processes(self.folder, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment, without inputs of another Terraform."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TF_VAR_", "TF_WORKSPACE", "TF_CLI_ARGS"))
            or name == "TF_CLI_ARGS_init"  # which may name the source of providers
        }
        return {**kept, "AWS_REGION": self.account.region}

    def copy_terraform(self) -> None:
        """Copy all stacks, so that what is destroyed is what was applied, whatever changes."""
        make_private(self.folder)
        shutil.copytree(ROOT / "terraform", self.folder / "terraform", ignore=NOT_COPIED)
        self.pin()

    def pin(self, **inputs: Any) -> None:
        """Set the core stack's inputs, these beside what a check always has."""
        more = (part.core_inputs(self.account) for part in self.parts)
        self._pinned.write_text(json.dumps(inputs_of(self.account, more) | inputs, indent=2))

    def pinned(self, name: str) -> Any:
        """An input of the core stack."""
        return json.loads(self._pinned.read_text())[name]

    @property
    def _pinned(self) -> Path:
        return self.folder / "terraform" / INPUTS

    @cached_property
    def config(self) -> Config:
        """What Terraform published; read once, so use it after the last apply alone."""
        return parse_config(self.published(VARIABLE))

    def published(self, variable: str) -> str:
        """What Airflow reads as this variable."""
        parameter = self.clients("ssm").get_parameter(Name=f"{VARIABLES}/{variable}")
        return str(parameter["Parameter"]["Value"])

    def wait(self, ask: Callable[[], T | None], seconds: float, missing: Callable[[], str]) -> T:
        """The first true answer.

        Raises:
            StepError: there was none for so many seconds; `missing` says what was seen.
        """
        deadline = time.monotonic() + seconds
        while not (answer := ask()):
            if time.monotonic() > deadline:
                raise StepError(f"{missing()} after {seconds:.0f} s")
            time.sleep(5 if self.account.on_aws else 0.5)
        return answer

    def usd(self, instance_type: str, seconds: float) -> float:
        """What so many seconds cost On-Demand; 0 on a local cloud."""
        price = self.prices.on_demand.get(instance_type, 0.0) if self.account.on_aws else 0.0
        return price * seconds / SECONDS_PER_HOUR


@dataclass(frozen=True)
class Part:
    """What a check has beside the usual where `WITH=` names it.

    `stack` is a folder in terraform/stacks: it is applied by one of the steps, and destroyed before
    the core stack. `programs` have to be on the PATH in AWS.
    """

    name: str
    uses: tuple[Use, ...]
    steps: Callable[[Check], list[Step]]
    core_inputs: Callable[[Account], dict[str, Any]] = lambda _: {}
    beside: tuple[Cost, ...] = ()
    stack: str | None = None
    programs: tuple[str, ...] = ()


def judged(answers: Iterable[Answer]) -> Seen:
    """What the environment check's questions saw, as a step.

    Raises:
        StepError: one failed.
        NotCheckedError: AWS answered none.
    """
    found = list(answers)
    told = [f"{one.target}: {one.seen} {one.remedy}".strip() for one in found]
    failed = [text for text, one in zip(told, found, strict=True) if one.status == "fail"]
    if failed:
        raise StepError(" ".join(failed))
    if all(one.status == "not checked" for one in found):
        raise NotCheckedError(" ".join(told), passes=True)
    return Seen(" ".join(dict.fromkeys(told)))
