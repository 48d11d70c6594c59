import pytest

from laptop.processes import stop_all
from laptop.session import Clock
from laptop.stack import Ports
from tests.e2e.aws_check.checks import PRINCIPAL, Checks
from tests.e2e.stacks import JOB_DIR
from tests.lean_stack import LeanStack


@pytest.fixture
def stack(tmp_path):
    with LeanStack(tmp_path / "stack", Ports(), Clock().say, job_dir=JOB_DIR, vcpus=4) as stack:
        stack.start_cloud()
        yield stack


@pytest.fixture
def checks(stack, tmp_path):
    checks = Checks(stack, tmp_path / "checks", stack.keep_provider(PRINCIPAL))
    yield checks
    stop_all(checks.home)
