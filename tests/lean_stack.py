"""Stacks that take less processor time to start, for tests of what is done with them.

That the local cloud and Terraform's provider start as a user starts them is shown where the core
stack is applied once (`tests/applied.py`), and by the tests of `make demo`.
"""

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from laptop.airflow import COMPONENTS
from laptop.processes import Processes
from laptop.stack import ROOT, TERRAFORM_DATA, Stack, init_one_at_a_time
from laptop.terraform import LOCKED_PROVIDER, REATTACHED, Terraform
from tests.waiting import PATIENCE_SECONDS, wait_for
from tests.warm import Fork

CLOUD, PROVIDER = "local-cloud", "provider"
ADDRESS = re.compile(f"{REATTACHED}='(.+)'")


class LeanStack(Stack):
    """Its local cloud is a fork of a process that has imported moto (`tests.warm`)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.processes = ForkedCloud(self.folder, self.processes.env)
        # No test edits what DAGs import, and to read them all takes 6 s of processor time.
        self.processes.env["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] = "3600"

    def keep_provider(self, principal: str = "terraform") -> dict[str, str]:
        """Let one provider serve all later commands, most of whose work is to start their own.

        Returns:
            what names it to a Terraform that somebody else runs.
        """
        env = self.aws_as(principal)
        # A provider that is configured again, by the next command, refuses to read it again.
        env["AWS_CA_BUNDLE"] = ""
        thin = [sys.executable, "-m", "tests.thin_provider", str(installed_provider())]
        self.processes.start(PROVIDER, thin, cwd=ROOT, env={**env, "PYTHONPATH": str(ROOT)})
        log = self.processes.log_of(PROVIDER)
        said = wait_for(lambda: ADDRESS.search(log.read_text()), "address of the provider")
        self.processes.env[REATTACHED] = self.terraform._env[REATTACHED] = said[1]
        return {REATTACHED: said[1]}


class ForkedCloud(Processes):
    def start(
        self, name: str, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        if name != CLOUD:
            super().start(name, argv, cwd=cwd, env=env)
            return
        _python, _m, module, *arguments = argv
        log = self.log_of(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as errors:
            self._started[name] = Fork(
                module, arguments, folder=cwd, env={**self.env, **(env or {})}, stderr=errors
            )

    def stop(self) -> None:
        """A fork has the environment of its parent, where no mark is found; so ask it by its id."""
        for name in COMPONENTS.keys() & self._started.keys():
            self.kill(name)  # to end in good order takes them seconds of processor time
        cloud = self._started.pop(CLOUD, None)
        if cloud:
            cloud.send_signal(signal.SIGTERM)
        super().stop()
        if cloud:
            cloud.wait(PATIENCE_SECONDS)
            cloud.stdout.close()


@cache
def installed_provider() -> Path:
    """The AWS provider that is locked."""
    stack_dir = ROOT / "terraform"
    terraform = Terraform(stack_dir, data_dir=TERRAFORM_DATA, state=TERRAFORM_DATA / "none.tfstate")
    init_one_at_a_time(terraform)
    ((address, version),) = LOCKED_PROVIDER.findall((stack_dir / ".terraform.lock.hcl").read_text())
    (binary,) = (TERRAFORM_DATA / "providers" / address / version).glob("*/terraform-provider-*")
    return binary
