"""What Batch instances run at boot, run: in a root of its own, beside stand-ins for the host."""

import sys
from functools import cache

import pytest

from tests.terraform.conftest import SOURCE
from tests.terraform.hosts import assert_clean_bash, assert_retired, booting_host
from tests.terraform.runs import rendered

TEMPLATE = SOURCE / "modules/batch/templates/configure_host.sh.tftpl"
SCRIPT = "configure_host"
PROGRAMS = ("systemctl", "shutdown", "sleep", "mdadm", "dnf", "mkfs.xfs", "mount", "chown")
VARIANTS = [
    *((0, False, ""), (0, True, ""), (1, False, ""), (1, True, ""), (4, False, "")),
    *((1, False, "time_slicing"), (1, True, "mps")),
]

GPU_DOCKER = '{"shutdown-timeout": 90, "default-runtime": "nvidia"}\n'
ONE_GPU = "GPU 0: NVIDIA A10G (UUID: GPU-0)"
ONLY_EBS = "/dev/nvme0n1 Amazon Elastic Block Store\n"
ONE_DISK = ONLY_EBS + "/dev/nvme1n1 Amazon EC2 NVMe Instance Storage\n"
TWO_DISKS = ONE_DISK + "/dev/nvme2n1 Amazon EC2 NVMe Instance Storage\n"


@pytest.fixture(scope="module")
def render(tmp_path_factory, offline):
    """The script as Terraform renders it."""
    folder = tmp_path_factory.mktemp("console")

    @cache
    def script(gpus, scratch, sharing=""):
        given = f'gpus = {gpus}, scratch = {str(scratch).lower()}, sharing = "{sharing}"'
        return rendered(TEMPLATE, given, folder, offline)

    return script


@pytest.mark.parametrize(("gpus", "scratch", "sharing"), VARIANTS)
def test_the_host_script_is_clean_bash(render, gpus, scratch, sharing):
    script = render(gpus, scratch, sharing)
    assert_clean_bash(script)
    assert ("nvidia-smi" in script) == (gpus > 0)


@pytest.fixture
def host(tmp_path):
    made = booting_host(tmp_path, PROGRAMS)
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


SEES_GPU = ["nvidia-smi --list-gpus", "nvidia-smi"]
ASKS_DISKS = "lsblk --nodeps --noheadings --paths --output NAME,MODEL"
RAID = "mdadm --create /dev/md0 --run --level 0 --raid-devices 2 /dev/nvme1n1 /dev/nvme2n1"
SHARES = ["chown 10001 /sharing"]


def scratch_on(disk):
    return [f"mkfs.xfs -f -q {disk}", f"mount -o noatime {disk} /scratch"]


@pytest.mark.parametrize(
    ("variant", "disks", "calls"),
    [
        ((0, False), ONE_DISK, []),
        ((1, False), ONE_DISK, SEES_GPU),
        ((4, False), ONE_DISK, SEES_GPU),
        ((0, True), ONE_DISK, [ASKS_DISKS, *scratch_on("/dev/nvme1n1")]),
        ((1, True), TWO_DISKS, [*SEES_GPU, ASKS_DISKS, RAID, *scratch_on("/dev/md0")]),
        ((1, False, "time_slicing"), ONE_DISK, [*SEES_GPU, *SHARES]),
    ],
)
def test_a_host_gets_ready(host, render, variant, disks, calls):
    gpus, scratch, *sharing = variant
    host.answer("nvidia-smi", f"{ONE_GPU}\n" * gpus)
    host.answer("lsblk", disks)
    host.boot(render(*variant))
    docker = GPU_DOCKER if gpus else '{"shutdown-timeout": 90}\n'
    assert host.text("etc/docker/daemon.json") == docker
    assert host.text("etc/ecs/ecs.config") == (GPU_CONFIG if gpus else CPU_CONFIG)
    assert host.calls == [*calls, "systemctl restart docker --no-block"]
    assert host.console == "configure_host: ready\n"
    if scratch:
        assert (host.root / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert (host.root / "sharing").is_dir() is bool(sharing)


def test_other_docker_settings_stay(host, render):
    host.write("etc/docker/daemon.json", '{"log-opts": {"max-size": "9m"}, "default-runtime": "x"}')
    host.boot(render(1, False))
    assert host.text("etc/docker/daemon.json") == (
        '{"log-opts": {"max-size": "9m"}, "default-runtime": "nvidia", "shutdown-timeout": 90}\n'
    )


def test_a_driver_that_does_not_answer(host, render):
    host.answer("nvidia-smi", code=9)
    run = host.run(render(1, False))
    assert_retired(host, run, SCRIPT, "nvidia-smi sees 0 of 1 GPU(s)")
    assert host.calls.count("sleep 5") == 11
    assert host.text("etc/docker/daemon.json") is None
    assert host.text("etc/ecs/ecs.config") == "ECS_CLUSTER=given-by-batch\n"


@pytest.mark.parametrize(
    ("program", "answered", "variant", "reason"),
    [
        ("nvidia-smi", {"text": f"{ONE_GPU}\n" * 3}, (4, False), "nvidia-smi sees 3 of 4 GPU(s)"),
        ("lsblk", {"text": ONLY_EBS}, (0, True), "no instance-store disk for /scratch"),
        ("lsblk", {"code": 1}, (0, True), "line "),
        ("mkfs.xfs", {"code": 1}, (0, True), "line "),
    ],
)
def test_a_host_that_lacks_what_its_jobs_need(host, render, program, answered, variant, reason):
    host.answer(program, **answered)
    assert_retired(host, host.run(render(*variant)), SCRIPT, reason)


def test_docker_settings_that_nobody_can_read(host, render):
    host.write("etc/docker/daemon.json", "{")
    assert_retired(host, host.run(render(1, False)), SCRIPT, "line ")
    assert host.text("etc/docker/daemon.json") == "{"


@pytest.mark.parametrize("runs", [True, False])
def test_a_host_whose_mps_daemon_may_come_up_later(host, render, runs):
    if runs:
        host.write("run/mps-ecs/control", "")
    run = host.boot(render(1, False, "mps"))
    told = "configure_host: no MPS daemon in /run/mps-ecs yet; AMIs up to 20260820 have no such"
    assert (told in run.stdout) is not runs
    assert run.stdout.endswith("configure_host: ready\n")
    assert host.calls[-2:] == ["chown 10001 /sharing", "systemctl restart docker --no-block"]
    assert "sleep 5" not in host.calls
