"""What Batch instances run at boot, run: in a root of its own, beside stand-ins for the host."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "terraform"
TEMPLATE = SOURCE / "modules/batch/templates/configure_host.sh.tftpl"
VARIANTS = [
    *((0, False, ""), (0, True, ""), (1, False, ""), (1, True, ""), (4, False, "")),
    *((1, False, "time_slicing"), (1, True, "mps")),
]

GPU_DOCKER = '{"shutdown-timeout": 90, "default-runtime": "nvidia"}\n'
ONE_GPU = "GPU 0: NVIDIA A10G (UUID: GPU-0)"
ONE_DISK = """\
/dev/nvme0n1 Amazon Elastic Block Store
/dev/nvme1n1 Amazon EC2 NVMe Instance Storage
"""
TWO_DISKS = ONE_DISK + "/dev/nvme2n1 Amazon EC2 NVMe Instance Storage\n"

pytestmark = pytest.mark.skipif(not shutil.which("terraform"), reason="no terraform here")


@pytest.fixture(scope="module")
def render(tmp_path_factory, offline):
    """The script as Terraform renders it."""
    folder = tmp_path_factory.mktemp("console")

    @cache
    def rendered(gpus, scratch, sharing=""):
        given = f'gpus = {gpus}, scratch = {str(scratch).lower()}, sharing = "{sharing}"'
        variables = f"{{ {given} }}"
        answer = subprocess.run(
            ["terraform", "console"],
            input=f'jsonencode(templatefile("{TEMPLATE}", {variables}))',
            cwd=folder,
            env={**offline, "TF_DATA_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        # Quoted twice: by jsonencode, and by the console.
        text: str = json.loads(json.loads(answer))
        return text

    return rendered


@pytest.mark.parametrize(("gpus", "scratch", "sharing"), VARIANTS)
def test_the_host_script_is_clean_bash(render, gpus, scratch, sharing):
    script = render(gpus, scratch, sharing)
    assert script.startswith("#!/bin/bash\n")
    assert ("nvidia-smi" in script) == (gpus > 0)
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.defpath}")
    assert shellcheck, "install the development requirements: pip install -r requirements-dev.txt"
    checked = subprocess.run(
        [shellcheck, "-"], input=script, capture_output=True, text=True, check=False
    )
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
  case $path in /etc | /dev | /run | /scratch | /sharing | /lost+found) continue ;; esac
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

    def answer(self, program, text="", *, code=0):
        """Let a program print `text` and end with `code`."""
        file = self.programs / program
        file.write_text(
            "#!/bin/sh\n"
            f'echo "{program}${{*:+ $*}}" >> {shlex.quote(str(self.log))}\n'
            f"printf %s {shlex.quote(text)}\n"
            f"exit {code}\n"
        )
        file.chmod(0o755)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

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
            timeout=60,
        )

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


@pytest.fixture
def host(tmp_path):
    if not own_namespaces():
        pytest.skip("this user may not make mount namespaces (unshare --user --mount)")
    made = Host(tmp_path / "root", tmp_path / "programs")
    made.programs.mkdir()
    made.log.touch()
    made.write("dev/console", "")
    made.write("etc/ecs/ecs.config", "ECS_CLUSTER=given-by-batch\n")
    for program in ("systemctl", "shutdown", "sleep", "mdadm", "dnf", "mkfs.xfs", "mount", "chown"):
        made.answer(program)
    made.answer("nvidia-smi", f"{ONE_GPU}\n")
    made.answer("lsblk", ONE_DISK)
    (made.programs / "python3").symlink_to(sys.executable)
    return made


GPU_CONFIG = """\
ECS_CLUSTER=given-by-batch
ECS_ENABLE_GPU_SUPPORT=true
ECS_ENABLE_SPOT_INSTANCE_DRAINING=true
ECS_CONTAINER_STOP_TIMEOUT=90s
"""
CPU_CONFIG = GPU_CONFIG.replace("ECS_ENABLE_GPU_SUPPORT=true\n", "")


def assert_retired(host, run, reason):
    """It failed aloud, takes no jobs, and will not cost for ever."""
    assert run.returncode == 1, run.stderr
    assert f"configure_host: FAILED: {reason}" in run.stdout
    assert f"configure_host: FAILED: {reason}" in host.console
    assert "ready" not in host.console
    last = ["systemctl mask ecs", "systemctl stop ecs --no-block", "shutdown -h +10"]
    assert host.calls[-3:] == last
    assert [call for call in host.calls[:-3] if call.startswith(("systemctl", "shutdown"))] == []


def test_a_gpu_host(host, render):
    run = host.run(render(1, False))
    assert run.returncode == 0, run.stderr
    assert host.text("etc/docker/daemon.json") == GPU_DOCKER
    assert host.text("etc/ecs/ecs.config") == GPU_CONFIG
    assert host.calls == [
        "nvidia-smi --list-gpus",
        "nvidia-smi",
        "systemctl restart docker --no-block",
    ]
    assert host.console == "configure_host: ready\n"


def test_other_docker_settings_stay(host, render):
    host.write("etc/docker/daemon.json", '{"log-opts": {"max-size": "9m"}, "default-runtime": "x"}')
    assert host.run(render(1, False)).returncode == 0
    assert host.text("etc/docker/daemon.json") == (
        '{"log-opts": {"max-size": "9m"}, "default-runtime": "nvidia", "shutdown-timeout": 90}\n'
    )


def test_docker_settings_that_nobody_can_read(host, render):
    host.write("etc/docker/daemon.json", "{")
    assert_retired(host, host.run(render(1, False)), "line ")
    assert host.text("etc/docker/daemon.json") == "{"


def test_a_driver_that_does_not_answer(host, render):
    host.answer("nvidia-smi", code=9)
    run = host.run(render(1, False))
    assert_retired(host, run, "nvidia-smi sees 0 of 1 GPU(s)")
    assert host.calls.count("sleep 5") == 11
    assert host.text("etc/docker/daemon.json") is None
    assert host.text("etc/ecs/ecs.config") == "ECS_CLUSTER=given-by-batch\n"


def test_too_few_gpus(host, render):
    host.answer("nvidia-smi", f"{ONE_GPU}\n" * 3)
    assert_retired(host, host.run(render(4, False)), "nvidia-smi sees 3 of 4 GPU(s)")


def test_all_of_several_gpus(host, render):
    host.answer("nvidia-smi", f"{ONE_GPU}\n" * 4)
    run = host.run(render(4, False))
    assert run.returncode == 0, run.stderr


def test_a_cpu_host(host, render):
    run = host.run(render(0, False))
    assert run.returncode == 0, run.stderr
    assert host.text("etc/ecs/ecs.config") == CPU_CONFIG
    assert host.text("etc/docker/daemon.json") == '{"shutdown-timeout": 90}\n'
    assert host.calls == ["systemctl restart docker --no-block"]


def test_scratch_on_one_disk(host, render):
    run = host.run(render(0, True))
    assert run.returncode == 0, run.stderr
    assert host.calls == [
        "lsblk --nodeps --noheadings --paths --output NAME,MODEL",
        "mkfs.xfs -f -q /dev/nvme1n1",
        "mount -o noatime /dev/nvme1n1 /scratch",
        "systemctl restart docker --no-block",
    ]
    assert (host.root / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert host.text("etc/ecs/ecs.config") == CPU_CONFIG


def test_scratch_on_several_disks(host, render):
    host.answer("lsblk", TWO_DISKS)
    run = host.run(render(1, True))
    assert run.returncode == 0, run.stderr
    assert host.calls[3:] == [
        "mdadm --create /dev/md0 --run --level 0 --raid-devices 2 /dev/nvme1n1 /dev/nvme2n1",
        "mkfs.xfs -f -q /dev/md0",
        "mount -o noatime /dev/md0 /scratch",
        "systemctl restart docker --no-block",
    ]


def test_scratch_without_disk(host, render):
    host.answer("lsblk", "/dev/nvme0n1 Amazon Elastic Block Store\n")
    assert_retired(host, host.run(render(0, True)), "no instance-store disk for /scratch")


def test_disks_that_nobody_can_list(host, render):
    host.answer("lsblk", code=1)
    assert_retired(host, host.run(render(0, True)), "line ")


def test_a_disk_that_can_t_be_formatted(host, render):
    host.answer("mkfs.xfs", code=1)
    assert_retired(host, host.run(render(0, True)), "line ")


def test_a_host_whose_gpu_is_shared(host, render):
    run = host.run(render(1, False, "time_slicing"))
    assert run.returncode == 0, run.stderr
    assert host.text("etc/docker/daemon.json") == GPU_DOCKER
    assert (host.root / "sharing").is_dir()
    assert host.calls == [
        "nvidia-smi --list-gpus",
        "nvidia-smi",
        "chown 10001 /sharing",
        "systemctl restart docker --no-block",
    ]


@pytest.mark.parametrize("runs", [True, False])
def test_a_host_whose_mps_daemon_may_come_up_later(host, render, runs):
    if runs:
        host.write("run/mps-ecs/control", "")
    run = host.run(render(1, False, "mps"))
    assert run.returncode == 0, run.stderr
    assert ("configure_host: no MPS daemon in /run/mps-ecs yet\n" in run.stdout) is not runs
    assert run.stdout.endswith("configure_host: ready\n")
    assert host.calls[-2:] == ["chown 10001 /sharing", "systemctl restart docker --no-block"]
    assert "sleep 5" not in host.calls
