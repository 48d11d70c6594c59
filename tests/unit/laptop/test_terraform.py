"""Terraform driven from Python: the real program, and stand-ins for unsuitable ones."""

import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from laptop.errors import TerraformError
from laptop.terraform import REATTACHED, Terraform, _in_words, find_provider_mirror
from tests.builders.files import program, put
from tests.terraform.plans import destroy, plan_exit_code, planned_changes
from tests.waiting import PATIENCE_SECONDS, wait_for

STACK = """
variable "color" {
  type    = string
  default = "green"
}

variable "sizes" {
  type    = list(number)
  default = [1]
}

resource "terraform_data" "this" {
  input = var.color
}

output "color" {
  value = terraform_data.this.output
}

output "sizes" {
  value = var.sizes
}
"""
SLOW_STACK = """
resource "terraform_data" "this" {
  provisioner "local-exec" {
    command = "echo $$ > started; exec sleep 3600"
  }
}
"""


@pytest.fixture
def stack_dir(tmp_path):
    folder = tmp_path / "stack"
    folder.mkdir()
    (folder / "main.tf").write_text(STACK)
    return folder


def open_stack(folder, **options):
    work = folder.parent
    return Terraform(folder, data_dir=work / "data", state=work / "my.tfstate", **options)


@pytest.fixture
def initialised(stack_dir):
    """Opens the stack with the real Terraform, as its options say."""
    if not shutil.which("terraform"):
        pytest.skip("no terraform here")

    def opened(**options):
        terraform = open_stack(stack_dir, **options)
        terraform.init()
        return terraform

    return opened


def fake_terraform(folder, script="", version="1.12.0"):
    """A program that gives this version, if any, and else runs the script."""
    if version:
        answer = f'{{"terraform_version": "{version}", "platform": "os_cpu"}}'
        script = f"""[ "$1" = version ] && echo '{answer}'\n{script}"""
    folder.mkdir()
    program(folder / "terraform", script)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


RECORDS = 'echo "$@" >> "$0.calls"'


def calls(folder):
    """What a Terraform that records was given."""
    return (folder / "bin" / "terraform.calls").read_text().splitlines()


def test_the_whole_life_of_a_stack(stack_dir, initialised):
    terraform = initialised()
    terraform.run("validate")
    assert plan_exit_code(terraform) == 2
    assert planned_changes(terraform) == {"terraform_data.this": "create"}
    assert terraform.outputs() == {}

    terraform.apply()
    assert planned_changes(terraform) == {}
    assert planned_changes(terraform, variables={"color": "red"}) == {
        "terraform_data.this": "update"
    }
    assert terraform.outputs() == {"color": "green", "sizes": [1]}
    assert plan_exit_code(terraform) == 0

    destroy(terraform)
    assert terraform.outputs() == {}
    assert [path.name for path in stack_dir.iterdir()] == ["main.tf"], "the stack stays clean"
    assert (stack_dir.parent / "my.tfstate").exists()


def test_variables_come_from_a_file_and_from_values_and_the_environment_given(
    initialised, tmp_path, monkeypatch
):
    var_file = tmp_path / "my.tfvars"
    var_file.write_text("sizes = [9]\n")
    monkeypatch.setenv("TF_VAR_color", "ours")
    terraform = initialised(env={"PATH": os.environ["PATH"], "TF_VAR_color": "given"})
    terraform.apply(var_file=var_file)
    assert terraform.outputs() == {"color": "given", "sizes": [9]}
    var_file.write_text('color = "red"\nsizes = [9]\n')
    terraform.apply(var_file=var_file, variables={"sizes": [2, 3]})
    assert terraform.outputs() == {"color": "red", "sizes": [2, 3]}, "values win over files"
    assert plan_exit_code(terraform, var_file=var_file, variables={"sizes": [2, 3]}) == 0
    assert plan_exit_code(terraform, var_file=var_file) == 2


def test_an_expression_has_its_value_by_the_inputs_of_files_before_anything_is_applied(
    initialised, tmp_path
):
    files = [tmp_path / f"{name}.tfvars" for name in ("first", "second")]
    files[0].write_text('color = "first"\nsizes = [9]\nunknown = 1\n')
    files[1].write_text('color = "$${é} \\"\\n"\n')
    terraform = initialised()
    first, second = files
    for given in ({"var_files": files}, {"var_files": [first], "profile": second}):
        assert terraform.evaluate("[var.color, var.sizes]", **given) == ['${é} "\n', [9]]
    assert not (tmp_path / "my.tfstate").exists()


def test_a_value_is_found_among_what_a_busy_terraform_says(stack_dir, tmp_path):
    """Where locking the state takes long, it says so in its output."""
    wait = "state lock. This may take a few moments..."
    said = rf'Acquiring {wait}\n"WzFd"\nReleasing {wait}\n'
    script = f"""[ "$1" = console ] && printf '{said}'"""
    terraform = open_stack(stack_dir, env=fake_terraform(tmp_path / "bin", script))
    assert terraform.evaluate("[1]", ()) == [1]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("sizes = 9 9", r"An argument definition must[^$]*my\.tfvars line 1"),
        ('sizes = "none"', "The given value is not suitable"),  # Terraform crashes
        ('color = "none"', "no such color: none"),  # it answers all the same
    ],
)
def test_wrong_inputs_are_told_in_terraforms_words(stack_dir, initialised, tmp_path, inputs, said):
    check = 'condition = var.color != "none"\nerror_message = "no such color: ${var.color}"'
    text = STACK.replace('"green"', f'"green"\nvalidation {{\n{check}\n}}')
    (stack_dir / "main.tf").write_text(text)
    file, ours = tmp_path / "my.tfvars", tmp_path / "ours.tfvars"
    file.write_text(inputs)
    ours.touch()
    terraform = initialised()
    with pytest.raises(TerraformError, match=rf"Terraform can't use {file}:\n{said}") as wrong:
        terraform.evaluate("[var.color, var.sizes]", [file], profile=ours)
    assert "!!!" not in str(wrong.value)


def test_what_our_own_validation_says_is_told_without_title_and_place():
    said = """
Error: Invalid value for variable

  on main.tf line 117, in module "own_jobs":
 117:   own_jobs = merge(var.own_jobs)
    \u251c\u2500
    \u2502 var.own_jobs is map of object with 1 element

timeout_seconds is 5 for a; give whole seconds
from 60.

This was checked by the validation rule at
modules/own_jobs/variables.tf:77,3-13.

Error: Missing item separator

  on mine.tfvars line 1:
   1: own_jobs = { a = [ }

Expected a comma.
"""
    assert _in_words(said).splitlines() == [
        "timeout_seconds is 5 for a; give whole seconds from 60.",
        "Expected a comma.",
        "(Missing item separator)",
        "  on mine.tfvars line 1:",
        "   1: own_jobs = { a = [ }",
    ]
    assert _in_words("") == "it wrote nothing to stderr"
    assert _in_words("a\n\nb\n") == "a\nb"


def test_an_error_carries_command_exit_code_and_reason_and_the_log_all_output(
    stack_dir, initialised, tmp_path
):
    log = tmp_path / "logs" / "terraform.log"
    terraform = initialised(log=log)
    terraform.apply()
    with pytest.raises(TerraformError):
        terraform.apply(variables={"sizes": "none"})
    text = log.read_text()
    assert "terraform init" in text
    assert "Apply complete! Resources: 1 added" in text
    assert "Invalid value for input variable" in text, "errors too"
    (stack_dir / "main.tf").write_text('output "bad" {\n  value = var.missing\n}\n')
    with pytest.raises(
        TerraformError, match=r"terraform apply in .* failed with exit code 1:\n"
    ) as e:
        terraform.apply()
    assert "Reference to undeclared input variable" in str(e.value)
    with pytest.raises(TerraformError, match=r"terraform plan .* exit code 1"):
        plan_exit_code(terraform)
    with pytest.raises(TerraformError, match=r"terraform validate .* exit code 1"):
        terraform.run("validate")


@pytest.mark.parametrize(
    ("script", "version"),
    [
        *((RECORDS, version) for version in ("1.10.5", "0.12.31", "1.9.0-rc1")),
        *((says, None) for says in ("echo Terraform v0.11", "exit 3", "echo '{}'", "echo '[]'")),
    ],
)
def test_an_old_terraform_or_one_without_a_version_is_refused(stack_dir, tmp_path, script, version):
    env = fake_terraform(tmp_path / "bin", script, version)
    with pytest.raises(TerraformError) as caught:
        open_stack(stack_dir, env=env).apply()
    program_path = tmp_path / "bin" / "terraform"
    if version:
        told = f"{program_path} is Terraform {version}: install 1.11 or newer"
        assert str(caught.value) == told
        assert [call.split()[0] for call in calls(tmp_path)] == ["version"], "nothing else ran"
    else:
        assert "printed no version: install Terraform 1.11 or newer" in str(caught.value)


def test_init_uses_a_mirror_only_for_what_is_locked(stack_dir, tmp_path, monkeypatch):
    env = fake_terraform(tmp_path / "bin", RECORDS)
    lock(stack_dir, "5.100.0")
    env["HOME"] = str(tmp_path)
    monkeypatch.setattr("laptop.terraform.find_provider_mirror", lambda *_: tmp_path / "mirror")
    open_stack(stack_dir, env=env).init()
    open_stack(stack_dir, env={**env, "TF_CLI_ARGS_init": "-upgrade=false"}).init()
    inits = [line for line in calls(tmp_path) if line.startswith("init")]
    assert [f"-plugin-dir={tmp_path / 'mirror'}" in line for line in inits] == [True, False]
    assert all("-lockfile=readonly" in line and "-input=false" in line for line in inits)


def test_init_installs_the_provider_also_where_one_is_attached(stack_dir, tmp_path):
    """Others use the folder after it, without one."""
    env = fake_terraform(tmp_path / "bin", f'echo "$1 ${{{REATTACHED}-none}}" >> "$0.calls"')
    stack = open_stack(stack_dir, env=env | {REATTACHED: "one"})
    stack.init()
    stack.apply()
    assert calls(tmp_path)[-2:] == ["init none", "apply one"]


def test_init_is_done_again_only_where_what_it_reads_has_changed(stack_dir, tmp_path):
    """Others may be reading what it writes anew."""
    env = fake_terraform(tmp_path / "bin", RECORDS)
    (tmp_path / "data").mkdir()

    def inits(**more):
        open_stack(stack_dir, env=env | more).init_where_changed()
        return sum(call.startswith("init") for call in calls(tmp_path))

    assert [inits(), inits()] == [1, 1]
    (stack_dir / "main.tf").write_text(STACK + "# changed")
    assert [inits(), inits()] == [2, 2]
    assert inits(TF_CLI_ARGS_init="-upgrade=false") == 3
    provider = tmp_path / "data" / "providers" / "host" / "us" / "aws" / "5" / "linux_amd64"
    provider.parent.mkdir(parents=True)
    provider.symlink_to(tmp_path / "bin")
    assert [inits(), inits()] == [4, 4]
    provider.unlink()
    provider.symlink_to(tmp_path / "a mirror that is gone")
    assert inits() == 5
    program(tmp_path / "bin" / "terraform", 'echo "$@" >> "$0.calls"; exit 1')
    for _ in range(2):  # what failed is done again
        with pytest.raises(TerraformError):
            inits()


def lock(folder, version):
    path = folder / ".terraform.lock.hcl"
    path.write_text(
        '# This file is maintained automatically by "terraform init".\n\n'
        f'provider "registry.terraform.io/hashicorp/aws" {{\n  version     = "{version}"\n'
        '  constraints = "~> 5.100"\n  hashes = [\n  ]\n}\n'
    )
    return path


@pytest.mark.parametrize("place", ["", "mirror", "terraform/plugins"])
@pytest.mark.parametrize(
    "held", ["5.100.0/linux_amd64/x", "terraform-provider-aws_5.100.0_linux_amd64.zip"]
)
def test_a_mirror_is_found_by_its_folder_name(tmp_path, place, held):
    lock_file = lock(tmp_path, "5.100.0")
    root = tmp_path / "opt"
    put(root / place / "registry.terraform.io/hashicorp/aws", held, "")
    found = find_provider_mirror(lock_file, "linux_amd64", [tmp_path / "none", root])
    assert found == root / place
    assert find_provider_mirror(lock_file, "darwin_arm64", [root]) is None, "other machines"
    assert find_provider_mirror(lock(tmp_path, "5.101.0"), "linux_amd64", [root]) is None
    assert find_provider_mirror(tmp_path / "no.lock", "linux_amd64", [root]) is None


def gone(pid_file):
    """Whether the process ends; a zombie has, though its new parent may not have noticed."""

    def ended():
        try:
            return psutil.Process(int(pid_file.read_text())).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return wait_for(ended, f"end of {pid_file.name}")


def interrupted(code, cwd, started, *, times=1):
    """Run `code` in a Python of its own, and send it Ctrl-C when `started` is there."""
    run = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: started.exists() and started.read_text().endswith("\n"), "start")
    for _ in range(times):
        run.send_signal(signal.SIGINT)
        time.sleep(0.2)
    run.communicate(timeout=PATIENCE_SECONDS)
    return run


RUN = """
import signal
from pathlib import Path
import laptop.terraform
signal.signal(signal.SIGINT, signal.default_int_handler)  # `nohup` and `&` leave it ignored
stack = laptop.terraform.Terraform(
    Path("stack"),
    data_dir=Path("data"),
    state=Path("my.tfstate"),
    env={env!r},
    stop_seconds={stop_seconds},
)
stack.init()
stack.apply()
"""


@pytest.mark.skipif(not shutil.which("terraform"), reason="no terraform here")
def test_ctrl_c_leaves_no_process_behind(stack_dir, tmp_path):
    (stack_dir / "main.tf").write_text(SLOW_STACK)
    ended = interrupted(RUN.format(stop_seconds=10, env=None), tmp_path, stack_dir / "started")
    assert ended.returncode == -signal.SIGINT
    assert gone(stack_dir / "started")
    assert (tmp_path / "my.tfstate").exists(), "Terraform had the time to write its state"


@pytest.fixture
def handled_ctrl_c():
    """Ctrl-C raises KeyboardInterrupt also where `nohup` or `&` left it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled_ctrl_c")
def test_ctrl_c_in_the_very_moment_of_the_start_leaves_no_process_behind(
    stack_dir, tmp_path, monkeypatch
):
    class InterruptedPopen(subprocess.Popen):
        def __init__(self, argv, **options):
            super().__init__(argv, **options)
            if argv[1] == "apply":
                wait_for(lambda: started.exists() and started.read_text(), "start")
                signal.raise_signal(signal.SIGINT)

    started = stack_dir / "started"
    env = fake_terraform(
        tmp_path / "bin",
        """[ "$1" = apply ] || exit 0
        echo $$ > started
        exec sleep 3600""",
    )
    monkeypatch.setattr(subprocess, "Popen", InterruptedPopen)
    terraform = open_stack(stack_dir, env=env)
    with pytest.raises(KeyboardInterrupt):
        terraform.apply()
    assert gone(started)


@pytest.mark.usefixtures("handled_ctrl_c")
def test_an_ignored_ctrl_c_stays_ignored(stack_dir, tmp_path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    env = fake_terraform(
        tmp_path / "bin",
        """[ "$1" = apply ] && kill -INT $PPID
        exit 0""",
    )
    open_stack(stack_dir, env=env).apply()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_even_what_does_not_want_to(stack_dir, tmp_path, times):
    env = fake_terraform(
        tmp_path / "bin",
        """[ "$1" = apply ] || exit 0
        trap '' INT TERM
        sleep 3600 &
        echo $$ > started; echo $! > child
        while true; do wait; done""",
    )
    started = stack_dir / "started"
    ended = interrupted(RUN.format(stop_seconds=1, env=env), tmp_path, started, times=times)
    assert ended.returncode == -signal.SIGINT
    assert gone(stack_dir / "started")
    assert gone(stack_dir / "child")
