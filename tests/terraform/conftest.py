"""One initialised copy of the stack for all tests here."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from laptop.terraform import Terraform
from tests.paths import ROOT

SOURCE = ROOT / "terraform"
LOCK_FILE = ".terraform.lock.hcl"


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
    if not shutil.which("terraform"):
        pytest.skip("no terraform here")
    return tmp_path_factory.mktemp("terraform-data")


@pytest.fixture(scope="session")
def stack_dir(tmp_path_factory, data_dir):
    """A copy of terraform/, initialised; modules can be tested with the same data folder."""
    folder = tmp_path_factory.mktemp("stack") / "terraform"
    shutil.copytree(
        SOURCE, folder, ignore=shutil.ignore_patterns(".terraform", "*.tfstate*", "*.auto.tfvars")
    )
    for module in (folder / "modules").iterdir():
        shutil.copy(folder / LOCK_FILE, module)
    Terraform(folder, data_dir=data_dir, state=folder / "none.tfstate").init()
    return folder


@pytest.fixture(scope="session")
def offline(data_dir):
    """An environment in which a call to AWS would fail at once."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **ours,
        "TF_DATA_DIR": str(data_dir),
        "CHECKPOINT_DISABLE": "1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="session")
def attached(stack_dir, data_dir, offline):
    """An environment in which every `terraform test` talks to one running provider.

    Else it starts one for each of its runs, which takes most of its time. What mocks stand in for
    is never configured, so the runs can share it.
    """
    (binary,) = data_dir.glob("providers/registry.terraform.io/hashicorp/aws/*/*/terraform-*")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.thin_provider", binary],
        cwd=ROOT,
        env=offline,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as provider:
        try:
            lines = (re.search("TF_REATTACH_PROVIDERS='(.+)'", line) for line in provider.stdout)
            address = next(line[1] for line in lines if line)
            yield {**offline, "TF_REATTACH_PROVIDERS": address}
        finally:
            provider.terminate()
