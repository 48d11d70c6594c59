"""What Terraform says, as a step sees it."""

import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from laptop.aws_check.steps import stack
from laptop.errors import TerraformError
from tests.unit.laptop.aws_check.conftest import told_by


@pytest.fixture
def plan(check_of, monkeypatch):
    """A step of a plan that says this."""
    monkeypatch.setattr(stack, "init_one_at_a_time", lambda _: None)

    def taken(step, said):
        check = check_of()
        check.terraform.with_inputs = lambda *_, **__: SimpleNamespace(stdout=said)
        return step(check)

    return taken


NONE = "No changes. Your infrastructure matches the configuration."
CREATED = "Plan: 102 to add, 0 to change, 0 to destroy."
CHANGED = "Plan: 0 to add, 1 to change, 0 to destroy."
READ_AGAIN = "Plan: 0 to add, 0 to change, 0 to destroy."
REPLACED = "Plan: 1 to import, 2 to add, 0 to change, 2 to destroy."


@pytest.mark.parametrize(
    ("step", "said", "ok"),
    [
        (stack.plan, CREATED, True),
        (stack.plan, NONE, False),
        (stack.plan, REPLACED, False),
        (stack.replan, NONE, True),
        (stack.replan, READ_AGAIN, True),
        (stack.replan, CHANGED, False),
        (stack.replan, REPLACED, False),
    ],
)
def test_a_first_plan_only_creates_and_a_second_changes_nothing(plan, step, said, ok):
    went_well, told = told_by(plan, step, said)
    assert went_well is ok
    assert ok or re.search("to destroy|no changes", told)


def test_a_plan_tells_which_roles_the_account_lacks(plan):
    """Terraform wraps a warning at 77 characters where there is no terminal."""
    create = "aws iam create-service-linked-role --aws-service-name"
    said = (
        f"{CREATED}\n\nWarning: Check block assertion failed\n\n"
        f"Before the first apply: {create}\nbatch.amazonaws.com; {create}\nspot.amazonaws.com\n"
    )
    roles = f"{create} batch.amazonaws.com; {create} spot.amazonaws.com"
    assert (
        plan(stack.plan, said).text
        == f"{CREATED[:-1]}; the account lacks service-linked roles: {roles}"
    )


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ((), "Apply complete! Resources: 9 added."),
        (("unexpected state 'INVALID', wanted 'VALID'",), "at the second attempt"),
        (("unexpected state 'INVALID'", "unexpected state 'INVALID'"), None),
        (("AccessDenied",), None),
    ],
)
def test_an_environment_that_met_a_new_role_is_made_at_the_second_try(
    check_of, monkeypatch, failures, said
):
    waited = []
    monkeypatch.setattr(stack.time, "sleep", waited.append)
    check = check_of()
    applied = SimpleNamespace(stdout="Apply complete! Resources: 9 added.")
    check.terraform.with_inputs = Mock(side_effect=[*map(TerraformError, failures), applied])
    if said:
        assert said in stack.apply(check).text
    else:
        with pytest.raises(TerraformError, match=failures[-1]):
            stack.apply(check)
    assert waited == [stack.ROLE_SECONDS] * ("INVALID" in str(failures))
