"""What is applied: a copy of the core stack, with inputs of its own and none of the user's."""

import json
import os

from laptop.aws_check.inputs import SHARED, inputs_of
from laptop.aws_check.steps.parts import PARTS
from laptop.stack import ROOT


def test_terraform_is_copied_without_what_is_the_users(check_of):
    check = check_of()
    check.copy_terraform()
    copy = check.folder / "terraform"
    assert (copy / "main.tf").read_text() == (ROOT / "terraform" / "main.tf").read_text()
    assert (copy / ".terraform.lock.hcl").exists()
    assert {path.name for path in copy.rglob("*.tfvars*")} == {"check.auto.tfvars.json"}
    for part in filter(None, (part.stack for part in PARTS.values())):
        assert (copy / "stacks" / part / "main.tf").exists()
    assert not list(copy.rglob("tests"))
    assert check.folder.stat().st_mode & 0o77 == 0
    check.pin(image_tag="check")
    inputs = json.loads((copy / "check.auto.tfvars.json").read_text())
    assert inputs == inputs_of(check.account) | {"image_tag": "check"}


def test_inputs_of_the_environment_are_left_out(check_of, monkeypatch):
    monkeypatch.setattr(
        os,
        "environ",
        {
            "PATH": "/bin",
            "TF_VAR_name": "mine",
            "TF_CLI_ARGS_apply": "-var-file=mine.tfvars",
            "TF_CLI_ARGS_init": "-plugin-dir=/opt",
            "TF_WORKSPACE": "mine",
        },
    )
    assert check_of().environment == {
        "PATH": "/bin",
        "TF_CLI_ARGS_init": "-plugin-dir=/opt",
        "AWS_REGION": "us-east-1",
    }


def test_a_local_cloud_is_said_to_be_one(check_of):
    local, real = (
        inputs_of(account, [part.core_inputs(account) for part in PARTS.values()])
        for account in (check_of(on_aws=on_aws).account for on_aws in (False, True))
    )
    assert (local["local_cloud"], real["local_cloud"]) == (True, False)
    falling_back = [job.get("allow_cpu_fallback") for job in real["target_overrides"].values()]
    assert True not in falling_back
    assert SHARED in real["shared_targets"]
