"""How a node of a multi-node job mounts its file system at boot, beside stand-ins for the host."""

import base64
import os
import shlex
import shutil

import pytest

from local_cloud.file_systems import hosts as local_hosts
from tests.terraform.conftest import SOURCE
from tests.terraform.hosts import assert_clean_bash, assert_retired, booting_host
from tests.terraform.runs import rendered

SCRIPT = "mount_file_system"
TEMPLATE = SOURCE / "stacks" / "multi_node" / "mount_file_system.sh.tftpl"
PARAMETER = "/airflow/variables/batchmark_multi_node_file_system"
OF_SYSTEM = f"{os.defpath}:/sbin:/usr/sbin"
PROGRAMS = ("systemctl", "shutdown", "sleep", "dnf", "mount", "mountpoint")

ID = "fs-0123456789abcdef0"
AVAILABLE = f"AVAILABLE\t{ID}.fsx.us-east-1.amazonaws.com\tfsmount1"
MOUNT = f"mount -t lustre -o relatime,flock {ID}.fsx.us-east-1.amazonaws.com@tcp:/fsmount1 /fsx"
MOUNTED = [MOUNT, "mountpoint --quiet /fsx"]


@pytest.fixture(scope="module")
def script(tmp_path_factory, offline):
    given = f'region = "us-east-1", id_parameter = "{PARAMETER}"'
    given += ', mount_point = "/fsx", scratch = "/scratch"'
    return rendered(TEMPLATE, given, tmp_path_factory.mktemp("console"), offline)


@pytest.fixture
def host(tmp_path):
    made = booting_host(tmp_path, PROGRAMS)
    answer(made)
    return made


def answer(host, parameter=ID, *described):
    """Let the AWS CLI tell the parameter, and describe the file system so, the last for ever."""
    answers = host.programs.parent / "described"
    answers.write_text("\n".join(described or [AVAILABLE]) + "\n")
    file = shlex.quote(str(answers))
    host.install(
        "aws",
        f"if [ $1 = ssm ]; then printf '%s\\n' {shlex.quote(parameter)}; exit; fi\n"
        f"head -n 1 {file}\n"
        f"if [ $(wc -l < {file}) -gt 1 ]; then sed -i 1d {file}; fi\n",
    )


def calls_of(host, program):
    return [call for call in host.calls if call.split()[0] == program]


def test_the_script_is_clean_bash_and_names_the_parameter_to_the_local_clouds_hosts(script):
    assert_clean_bash(script)
    assert local_hosts.named_in(base64.b64encode(script.encode()).decode()) == (PARAMETER,)


def test_the_file_system_is_mounted(host, script):
    host.boot(script)
    assert host.calls == [
        f"aws ssm get-parameter --region us-east-1 --name {PARAMETER} "
        "--query Parameter.Value --output text",
        "dnf install --assumeyes --quiet lustre-client",
        f"aws fsx describe-file-systems --region us-east-1 --file-system-ids {ID} "
        "--query FileSystems[0].[Lifecycle,DNSName,LustreConfiguration.MountName] --output text",
        *MOUNTED,
    ]
    assert host.console == f"mount_file_system: {ID} is mounted at /fsx\n"
    assert (host.root / "scratch").stat().st_mode & 0o7777 == 0o1777


def test_without_a_file_system_there_is_nothing_to_mount(host, script):
    answer(host, "none")
    host.boot(script)
    assert len(host.calls) == 1
    assert host.console == "mount_file_system: no file system to mount\n"
    assert (host.root / "fsx").is_dir()


def test_a_file_system_that_is_being_made_is_waited_for(host, script):
    answer(host, ID, *["CREATING\tNone\tNone"] * 3, AVAILABLE)
    host.boot(script)
    assert host.calls.count("sleep 10") == 3
    assert host.calls[-2:] == MOUNTED


@pytest.mark.parametrize(
    ("lifecycle", "waits"),
    [("CREATING", 89), *((end, 0) for end in ("DELETING", "FAILED", "MISCONFIGURED"))],
)
def test_one_that_is_not_usable_or_never_made_is_not_mounted(host, script, lifecycle, waits):
    answer(host, ID, f"{lifecycle}\tNone\tNone")
    assert_retired(host, host.run(script), SCRIPT, f"{ID} is {lifecycle}")
    assert host.calls.count("sleep 10") == waits
    assert calls_of(host, "mount") == []


@pytest.mark.parametrize("parameter", ["", "None", "batchmark"])
def test_what_is_no_id_is_refused(host, script, parameter):
    answer(host, parameter)
    reason = f'the parameter {PARAMETER} is "{parameter}", which is neither a file system'
    assert_retired(host, host.run(script), SCRIPT, reason)


@pytest.mark.parametrize(
    ("program", "reason", "tries"),
    [
        ("aws", f"can't read the parameter {PARAMETER}", 6),
        ("dnf", "can't install the Lustre client", 6),
        ("mount", f"can't mount {ID}", 6),
        ("mountpoint", f"{ID} is not at /fsx", 1),  # the mount is not there afterwards
    ],
)
def test_what_fails_for_good_is_tried_again_and_then_costs_the_host(
    host, script, program, reason, tries
):
    host.answer(program, code=32)
    assert_retired(host, host.run(script), SCRIPT, reason)
    assert (len(calls_of(host, program)), host.calls.count("sleep 10")) == (tries, tries - 1)


@pytest.mark.skipif(shutil.which("aws", path=OF_SYSTEM) is not None, reason="the AWS CLI is here")
def test_the_aws_cli_is_installed_where_the_image_lacks_it(host, script, monkeypatch):
    monkeypatch.setenv("PATH", OF_SYSTEM)
    (host.programs / "aws").rename(host.programs / "aws-2")
    host.install("dnf", f"ln -sf aws-2 {shlex.quote(str(host.programs))}/aws\n")
    host.boot(script)
    assert calls_of(host, "dnf")[0] == "dnf install --assumeyes --quiet awscli-2"
    assert host.calls[-2:] == MOUNTED
