"""Terraform as a library: find it, run it, check every return code, leave no process behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import python_terraform
from python_terraform import IsFlagged, IsNotFlagged

from batchmark.exceptions import TerraformError

MINIMUM_VERSION = (1, 11)
MIRROR_ROOTS = (
    Path("/opt"),
    Path("/usr/share"),
    Path("/usr/local/share"),
    Path("~/.terraform.d").expanduser(),
)
LOCKED_PROVIDER = re.compile(r'^provider "(.+?)" \{\s+version\s+= "(.+?)"', re.MULTILINE)
# How long Terraform may take to stop by itself, with its state written, before it is killed.
STOP_SECONDS = 10.0
ERROR_LINES = 25


class Terraform:
    """One stack, its state and the settings every command runs with.

    Args:
        stack_dir: folder of the root module.
        data_dir: where Terraform keeps providers and modules (TF_DATA_DIR).
        state: path of the state file.
        env: environment instead of this process's own.
        log: file that all of Terraform's output is appended to.
    """

    def __init__(
        self,
        stack_dir: Path,
        *,
        data_dir: Path,
        state: Path,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self.stack_dir = stack_dir.resolve()
        self._state = state.resolve()
        self._log = log
        self._env = {
            **(os.environ if env is None else env),
            "TF_DATA_DIR": str(data_dir.resolve()),
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
        }

    def check(self) -> None:
        """Raise TerraformError unless a Terraform that is new enough is on the PATH."""
        _ = self._binary

    def init(self) -> None:
        """Install what the lock file names, from a provider mirror where the machine has one."""
        options: dict[str, Any] = {"state": None}  # python-terraform's default, which init refuses
        lock_file = self.stack_dir / ".terraform.lock.hcl"
        if lock_file.exists():
            options["lockfile"] = "readonly"
        # Whoever says where providers are knows better than we do.
        if "TF_CLI_ARGS_init" not in self._env:
            options["plugin_dir"] = find_provider_mirror(lock_file, self._binary.platform)
        self._checked(self._cli.init(**options))

    def validate(self) -> None:
        self._checked(self._cli.cmd("validate", no_color=IsFlagged))

    def apply(
        self, *, var_file: Path | None = None, variables: Mapping[str, Any] | None = None
    ) -> None:
        self._checked(self._cli.apply(skip_plan=True, **_inputs(var_file, variables)))

    def plan_exit_code(
        self, *, var_file: Path | None = None, variables: Mapping[str, Any] | None = None
    ) -> int:
        """0 when the plan has no changes, 2 when it has some."""
        result = self._cli.plan(input=False, **_inputs(var_file, variables))
        return self._checked(result, allowed=(0, 2)).code

    def planned_changes(
        self, *, var_file: Path | None = None, variables: Mapping[str, Any] | None = None
    ) -> dict[str, str]:
        """What an apply would do to each resource, by address: create, update, replace, delete."""
        result = self._cli.plan(json=IsFlagged, input=False, **_inputs(var_file, variables))
        messages = map(json.loads, self._checked(result, allowed=(0, 2)).out.splitlines())
        changes = (message["change"] for message in messages if message["type"] == "planned_change")
        return {
            change["resource"]["addr"]: change["action"]
            for change in changes
            if change["action"] != "read"  # a data source, read again
        }

    def destroy(
        self, *, var_file: Path | None = None, variables: Mapping[str, Any] | None = None
    ) -> None:
        # Terraform dropped -force, which python-terraform still passes.
        options = {"force": IsNotFlagged, "auto_approve": IsFlagged, "input": False}
        self._checked(self._cli.destroy(**options, **_inputs(var_file, variables)))

    def outputs(self) -> dict[str, Any]:
        """Values by name; empty before the first apply."""
        result = self._checked(self._cli.cmd("output", json=IsFlagged, state=str(self._state)))
        return {name: output["value"] for name, output in json.loads(result.out).items()}

    @cached_property
    def _binary(self) -> _Binary:
        return _find_binary(self._env)

    @cached_property
    def _cli(self) -> _Cli:
        return _Cli(self._binary.path, self.stack_dir, self._state, self._env, self._log)

    def _checked(self, result: _Result, allowed: tuple[int, ...] = (0,)) -> _Result:
        if result.code in allowed:
            return result
        lines = [line for line in result.err.splitlines() if line.strip()]
        tail = "\n".join(lines[-ERROR_LINES:]) or "it wrote nothing to stderr"
        raise TerraformError(
            f"{result.command} in {self.stack_dir} ended with exit code {result.code}:\n{tail}"
        )


def find_provider_mirror(
    lock_file: Path, platform: str, roots: Iterable[Path] = MIRROR_ROOTS
) -> Path | None:
    """Folder to give to `terraform init -plugin-dir`, if one holds every provider locked."""
    if not lock_file.exists():
        return None
    locked = LOCKED_PROVIDER.findall(lock_file.read_text())
    for root in roots:
        for pattern in ("", "*/", "*/*/"):
            for registry in root.glob(f"{pattern}registry.terraform.io"):
                if locked and all(_holds(registry.parent, a, v, platform) for a, v in locked):
                    return registry.parent
    return None


def _holds(mirror: Path, address: str, version: str, platform: str) -> bool:
    folder = mirror / address
    packed = f"terraform-provider-{folder.name}_{version}_{platform}.zip"
    return (folder / version / platform).is_dir() or (folder / packed).is_file()


def _inputs(var_file: Path | None, variables: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "var_file": str(var_file.resolve()) if var_file else None,
        "var": dict(variables) if variables else None,
    }


@dataclass(frozen=True)
class _Binary:
    path: str
    platform: str


def _find_binary(env: Mapping[str, str]) -> _Binary:
    need = ".".join(map(str, MINIMUM_VERSION))
    path = shutil.which("terraform", path=env.get("PATH"))
    if path is None:
        raise TerraformError(f"terraform is not on the PATH: install Terraform {need} or newer")
    result = _run([path, "version", "-json"], Path.cwd(), env, None)
    try:
        answer = json.loads(result.out)
        version = str(answer["terraform_version"])
        number = tuple(int(part) for part in version.split("-", maxsplit=1)[0].split("."))
        platform = str(answer["platform"])
    except (ValueError, KeyError, TypeError) as error:
        raise TerraformError(
            f"{path} version -json ended with exit code {result.code} and gave no version: "
            f"install Terraform {need} or newer"
        ) from error
    if number < MINIMUM_VERSION:
        raise TerraformError(f"{path} is Terraform {version}: install {need} or newer")
    return _Binary(path, platform)


@dataclass(frozen=True)
class _Result:
    command: str
    code: int
    out: str
    err: str


class _Cli(python_terraform.Terraform):  # type: ignore[misc]
    """python-terraform's command lines, run our way: it has no own environment, log or stop."""

    def __init__(
        self, binary: str, stack_dir: Path, state: Path, env: Mapping[str, str], log: Path | None
    ) -> None:
        super().__init__(str(stack_dir), state=str(state), terraform_bin_path=binary)
        self._run_in = (stack_dir, env, log)

    def cmd(self, cmd: str, *args: str, **kwargs: Any) -> _Result:
        """Run a command to its end, whatever its exit code."""
        if "var" in kwargs:  # after the files, or those would win
            kwargs["var"] = kwargs.pop("var")
        try:
            return _run(self.generate_cmd_string(cmd, *args, **kwargs), *self._run_in)
        finally:
            self.temp_var_files.clean_up()

    def read_state_file(self, file_path: str | None = None) -> None:
        """Leave the state alone: python-terraform would parse it after every command."""


def _run(argv: list[str], cwd: Path, env: Mapping[str, str], log: Path | None) -> _Result:
    command = f"terraform {argv[1]}"
    with _appended(log) as out, tempfile.TemporaryFile() as err:
        out.write(f"$ {' '.join(argv)}\n".encode())
        out.flush()
        start = out.tell()
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # Of its own, so that a Ctrl-C reaches us alone and we see to the end of it.
                start_new_session=True,
            )
        except OSError as error:
            raise TerraformError(f"{command} can't be started: {error}") from error
        try:
            code = process.wait()
        finally:
            _stop(process)
            out.seek(start)
            output = out.read()
            err.seek(0)
            errors = err.read()
            out.write(errors)
    return _Result(command, code, output.decode(errors="replace"), errors.decode(errors="replace"))


@contextmanager
def _appended(log: Path | None) -> Iterator[IO[bytes]]:
    if log is None:
        with tempfile.TemporaryFile() as nowhere:
            yield nowhere
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a+b") as file:
            yield file


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End Terraform and the provider processes in its group, gently first."""
    try:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError, PermissionError):  # macOS: nothing but a zombie left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
