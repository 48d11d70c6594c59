"""A booting instance that scripts run on: a root of its own, beside stand-ins for its programs."""

import shlex
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.builders.files import program, put
from tests.documented import BESIDE_PYTHON
from tests.waiting import PATIENCE_SECONDS


def assert_clean_bash(script):
    assert script.startswith("#!/bin/bash\n")
    command = [BESIDE_PYTHON / "shellcheck", "-"]
    checked = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@cache
def own_namespaces():
    """The command that lets this user mount and chroot without touching the machine."""
    for flags in (["--user", "--map-root-user"], []):
        command = ["unshare", *flags, "--mount"]
        try:
            subprocess.run([*command, "chroot", "/", "true"], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    return []


# Everything of the machine is visible, but for these, which are the host's own.
ENTER = """
set -eu
mount --make-rprivate /
cd "$1"
for path in /*; do
  case $path in /etc | /dev | /run | /fsx | /scratch | /sharing | /lost+found) continue ;; esac
  if [ -L "$path" ]; then ln -s "$(readlink "$path")" ".$path"
  elif [ -d "$path" ]; then mkdir -p ".$path"; mount --rbind "$path" ".$path"
  fi
done
for file in /dev/null /etc/ld.so.cache; do
  if [ -e "$file" ]; then touch ".$file"; mount --bind "$file" ".$file"; fi
done
ln -s /proc/self/fd dev/fd
exec chroot . /usr/bin/env PATH="$2:$PATH" bash "$3"
"""


@dataclass
class Host:
    """A root folder as a booting instance's, and stand-ins that write down how they were called."""

    root: Path
    programs: Path

    def answer(self, name, text="", *, code=0):
        """Let a program print `text` and end with `code`."""
        self.install(name, f"printf %s {shlex.quote(text)}\nexit {code}\n")

    def install(self, name, lines):
        """Let a program be these lines of shell."""
        called = f'echo "{name}${{*:+ $*}}" >> {shlex.quote(str(self.log))}\n'
        program(self.programs / name, called + lines)

    def write(self, path, text):
        put(self.root, path, text)

    def run(self, script):
        """Run the script as cloud-init would: as root of this folder, with no terminal."""
        file = self.programs.parent / "script.sh"
        file.write_text(script)
        return subprocess.run(
            [
                *own_namespaces(),
                *("sh", "-c", ENTER, "sh"),
                *map(str, (self.root, self.programs, file)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def boot(self, script):
        """Run a script that ends well."""
        run = self.run(script)
        assert run.returncode == 0, run.stderr
        return run

    @property
    def log(self):
        return self.programs.parent / "calls"

    @property
    def calls(self):
        return self.log.read_text().splitlines()

    @property
    def console(self):
        return (self.root / "dev/console").read_text()

    def text(self, path):
        file = self.root / path
        return file.read_text() if file.exists() else None


def booting_host(folder, programs):
    """A host whose `programs` do nothing, and end well."""
    if not own_namespaces():
        pytest.skip("this user may not make mount namespaces (unshare --user --mount)")
    made = Host(folder / "root", folder / "programs")
    made.programs.mkdir()
    made.log.touch()
    made.write("dev/console", "")
    made.write("etc/ecs/ecs.config", "ECS_CLUSTER=given-by-batch\n")
    for name in programs:
        made.answer(name)
    return made


def assert_retired(host, run, script, reason):
    """It failed aloud, takes no jobs, and will not cost for ever."""
    assert run.returncode == 1, run.stderr
    assert f"{script}: FAILED: {reason}" in run.stdout
    assert f"{script}: FAILED: {reason}" in host.console
    assert "ready" not in host.console
    last = ["systemctl mask ecs", "systemctl stop ecs --no-block", "shutdown -h +10"]
    assert host.calls[-3:] == last
    assert [call for call in host.calls[:-3] if call.startswith(("systemctl", "shutdown"))] == []
