"""Runs Terraform from Python: finds it, checks its exit code, and leaves no process behind."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import python_terraform
from python_terraform import IsFlagged

from laptop import INTERRUPTS
from laptop.errors import TerraformError

MINIMUM_VERSION = (1, 11)  # as required_version in terraform/versions.tf
MIRROR_ROOTS = (
    Path("/opt"),
    Path("/usr/share"),
    Path("/usr/local/share"),
    Path("~/.terraform.d").expanduser(),
)
LOCKED_PROVIDER = re.compile(r'^provider "(.+?)" \{\s+version\s+= "(.+?)"', re.MULTILINE)
STOP_SECONDS = 10.0  # judgment: killed before it writes its state, Terraform forgets resources
POLL_SECONDS = 0.1  # how late an interrupt is noticed
ERROR_LINES = 25  # judgment: fits on a terminal; the log has the rest
OWN_RULE = "This was checked by the validation rule at"
REATTACHED = "TF_REATTACH_PROVIDERS"  # addresses of providers that are already running
ERROR, CRASH = "Error: ", "!!!!!!!!"  # in Terraform's stderr


Result = subprocess.CompletedProcess[str]


class Terraform:
    """A root module, its state, and the settings shared by all its commands.

    Args:
        data_dir: where Terraform keeps providers and modules (TF_DATA_DIR).
        env: Terraform's entire environment; by default, this process's environment.
        log: file to which all of Terraform's output is appended.
        stop_seconds: how long an interrupted Terraform can write its state before it is killed.
    """

    def __init__(
        self,
        stack_dir: Path,
        *,
        data_dir: Path,
        state: Path,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.stack_dir = stack_dir.resolve()
        self.state = state.resolve()
        self._data_dir = data_dir.resolve()
        self._log = log
        self._stop_seconds = stop_seconds
        self._env = {
            **(os.environ if env is None else env),
            "TF_DATA_DIR": str(self._data_dir),
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
        }

    def check(self) -> None:
        """Raise TerraformError unless a recent enough Terraform is on the PATH."""
        _ = self._binary

    def init(self) -> None:
        """Install modules and locked providers, using a local mirror if this machine has one."""
        options: dict[str, Any] = {}
        lock_file = self.stack_dir / ".terraform.lock.hcl"
        if lock_file.exists():
            options["lockfile"] = "readonly"
        # The user's arguments for `init` may name the source of providers.
        if "TF_CLI_ARGS_init" not in self._env:
            options["plugin_dir"] = find_provider_mirror(lock_file, self._binary.platform)
        self.run("init", input=False, reconfigure=IsFlagged, **options)

    def init_where_changed(self) -> None:
        """Run `init` unless it has already been run in this folder with the same inputs.

        `init` rewrites files that other commands in the same folder may be reading.
        """
        done = self._data_dir / "initialised"
        if done.exists() and done.read_text() == self._installed():
            return
        done.unlink(missing_ok=True)
        self.init()
        done.write_text(self._installed())

    def _installed(self) -> str:
        """Return a digest of what `init` reads and of the installed providers that still exist."""
        # the folder is missing if a stack has no modules
        listing = self._data_dir / "modules" / "modules.json"
        modules = json.loads(listing.read_text())["Modules"] if listing.exists() else [{"Dir": "."}]
        folders = sorted({self.stack_dir / module["Dir"] for module in modules})
        names = ("*.tf", "*.tf.json", ".terraform.lock.hcl")
        files = [file for folder in folders for name in names for file in sorted(folder.glob(name))]
        providers = sorted((self._data_dir / "providers").glob("*/*/*/*/*"))
        told = [self._binary.path, self._env.get("TF_CLI_ARGS_init", "")]
        told += [str(path) for path in providers if path.exists()]
        told += [f"{file.name} {file.read_text()}" for file in files]
        return hashlib.sha256("\0".join(told).encode()).hexdigest()

    def apply(self, **inputs: Any) -> None:
        """Apply without asking for confirmation."""
        self.with_inputs("apply", auto_approve=IsFlagged, **inputs)

    def with_inputs(
        self,
        command: str,
        *,
        var_file: Path | None = None,
        variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Result:
        """Run a command that takes inputs; `variables` override `var_file`."""
        return self.run(
            command,
            state=self.state,
            input=False,
            **options,
            var_file=var_file and var_file.resolve(),
            var=dict(variables or {}),  # last, because in Terraform the last one wins
        )

    def outputs(self) -> dict[str, Any]:
        """Return the output values by name, or an empty dict before the first apply."""
        result = self.run("output", json=IsFlagged, state=self.state)
        return {name: output["value"] for name, output in json.loads(result.stdout).items()}

    def evaluate(
        self, expression: str, var_files: Sequence[Path], *, profile: Path | None = None
    ) -> Any:
        """Evaluate an expression with inputs from files; later files override earlier ones.

        `profile` overrides them all; errors don't name it, as it is Batchmark's own. Terraform
        checks the inputs first. This requires `init`, but no state.

        Raises:
            TerraformError: an input or the expression is invalid; the message is Terraform's.
        """
        result = self.run(
            "console",
            allowed=range(256),
            stdin=f"base64encode(jsonencode({expression}))\n",
            state=self.state,
            var_file=[str(file.resolve()) for file in (*var_files, profile) if file],
        )
        # With wrong inputs it continues, and answers or crashes.
        _, error, words = result.stderr.partition(CRASH)[0].partition(ERROR)
        if result.returncode or error:
            names = ", ".join(map(str, var_files))
            raise TerraformError(f"Terraform can't use {names}:\n{_in_words(error + words)}")
        # Amid warnings and, if a state file is slow to lock, messages about that.
        (value,) = re.findall(r'^"(.*)"$', result.stdout, re.MULTILINE)
        return json.loads(base64.b64decode(value))

    def run(
        self, command: str, *, allowed: Collection[int] = (0,), stdin: str = "", **options: Any
    ) -> Result:
        """Run a command; options are spelled as in python-terraform and keep the given order.

        Raises:
            TerraformError: its exit code is not in `allowed`.
        """
        command_line = _CommandLine(terraform_bin_path=self._binary.path)
        env = dict(self._env)
        if command == "init":
            # With attached providers it would install none, and leave the folder without for
            # others.
            env.pop(REATTACHED, None)
        try:
            argv = command_line.generate_cmd_string(command, no_color=IsFlagged, **options)
            result = _execute(argv, self.stack_dir, env, self._log, stdin, self._stop_seconds)
        finally:
            command_line.temp_var_files.clean_up()
        if result.returncode in allowed:
            return result
        raise TerraformError(
            f"terraform {command} in {self.stack_dir} failed with exit code {result.returncode}:\n"
            f"{_in_words(result.stderr)}"
        )

    @cached_property
    def _binary(self) -> _Binary:
        need = ".".join(map(str, MINIMUM_VERSION))
        path = shutil.which("terraform", path=self._env.get("PATH"))
        if path is None:
            raise TerraformError(f"terraform is not on the PATH: install Terraform {need} or newer")
        result = _execute([path, "version", "-json"], Path.cwd(), self._env, None)
        try:
            answer = json.loads(result.stdout)
            version = str(answer["terraform_version"])
            number = tuple(int(part) for part in version.split("-", maxsplit=1)[0].split("."))
            platform = str(answer["platform"])
        except (ValueError, KeyError, TypeError) as error:
            raise TerraformError(
                f"{path} version -json exited with code {result.returncode} and printed no "
                f"version: install Terraform {need} or newer"
            ) from error
        if number < MINIMUM_VERSION:
            raise TerraformError(f"{path} is Terraform {version}: install {need} or newer")
        return _Binary(path, platform)


def _in_words(errors: str) -> str:
    """Return the errors in Terraform's stderr, or its last lines if it contains none."""
    _, *found = re.split(rf"^{ERROR}", errors, flags=re.MULTILINE)
    told = [_one_in_words(error) for error in found]
    lines = [line for line in "\n".join(told).splitlines() if line.strip()]
    if lines:
        return "\n".join(lines[:ERROR_LINES])
    lines = [line for line in errors.splitlines() if line.strip()]
    return "\n".join(lines[-ERROR_LINES:]) or "it wrote nothing to stderr"


def _one_in_words(error: str) -> str:
    """Return an error's text, title and location, or only the text for our own validation rules."""
    title, *parts = re.split(r"\n\s*?\n", error.strip())
    places = [part for part in parts if re.match(r"\s+(on|with) ", part)]
    said = [part for part in parts if part not in places]
    if said and said[-1].startswith(OWN_RULE):
        return " ".join(" ".join(said[:-1]).split())
    return "\n".join([*said, f"({title})", *places])


class _CommandLine(python_terraform.Terraform):  # type: ignore[misc]
    """Builds command lines only; python-terraform can't set an environment or be interrupted."""

    def read_state_file(self, file_path: str | None = None) -> None:
        """Do nothing, whereas the original parses any state file it finds in the current folder."""


def find_provider_mirror(
    lock_file: Path, platform: str, roots: Iterable[Path] = MIRROR_ROOTS
) -> Path | None:
    """Return a folder with every locked provider for `terraform init -plugin-dir`, or None."""
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


@dataclass(frozen=True)
class _Binary:
    path: str
    platform: str


def _execute(
    argv: list[str],
    cwd: Path,
    env: Mapping[str, str],
    log: Path | None,
    stdin: str = "",
    stop_seconds: float = STOP_SECONDS,
) -> Result:
    """Run a command to completion, whatever its exit code."""
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a+b") if log else tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryFile() as source,
    ):
        source.write(stdin.encode())
        source.seek(0)
        out.write(f"$ {' '.join(argv)}\n".encode())
        out.flush()
        start = out.tell()
        with _noted_signals() as came:
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=source,
                    stdout=out,
                    stderr=err,
                    # Ctrl-C then reaches only this process, which stops Terraform gracefully.
                    start_new_session=True,
                )
            except OSError as error:
                raise TerraformError(f"terraform {argv[1]} can't be started: {error}") from error
            try:
                _wait(process, came, stop_seconds)
            finally:
                _kill(process)
            out.seek(start)
            output = out.read()
            err.seek(0)
            errors = err.read()
            out.write(errors)
    said, told = (text.decode(errors="replace") for text in (output, errors))
    return Result(argv, process.returncode, said, told)


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Hold back signals that would interrupt the block, and deliver them when it ends.

    Otherwise, a program could be started without anything keeping track of it. Yields the signals.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # signals interrupt only the main thread
        return
    handlers = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in INTERRUPTS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield came
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for noted in came:
            signal.raise_signal(noted)


def _wait(process: subprocess.Popen[bytes], came: Sequence[int], stop_seconds: float) -> None:
    """Wait for Terraform; after one signal, ask it to stop and wait at most `stop_seconds` more.

    A second signal ends the wait at once.
    """
    _wait_for(process, lambda: bool(came))
    if came:
        process.send_signal(signal.SIGINT)
        end = time.monotonic() + stop_seconds
        _wait_for(process, lambda: len(came) > 1 or time.monotonic() > end)


def _wait_for(process: subprocess.Popen[bytes], enough: Callable[[], bool]) -> None:
    while not enough():
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
            return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill any Terraform and provider processes that are left in its process group."""
    with suppress(ProcessLookupError, PermissionError):  # macOS: only a zombie is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
