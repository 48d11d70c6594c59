"""What a check refuses before anything costs money, and that it destroys however it ends."""

import shlex
import signal
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from batchmark.core.prices import load_prices
from laptop import __main__ as program
from laptop.aws_check import command
from laptop.aws_check.account import Account
from laptop.aws_check.command import CheckOptions
from laptop.aws_check.state import State
from laptop.aws_check.step import Seen, Step, StepError
from laptop.aws_check.steps.parts import PARTS
from laptop.errors import LaptopError
from tests.documented import recipe

ACCOUNT = Account("123456789012", "us-east-1", "arn:aws:iam::123456789012:role/me", on_aws=False)


@pytest.fixture
def scripted(monkeypatch, tmp_path):
    """A check without a cloud: its account, its steps and its end do what a test says."""
    script = SimpleNamespace(
        steps={"apply": Seen("applied"), "job": Seen("done")},
        ends={"destroy": Seen("destroyed"), "nothing left": Seen("nothing")},
        left=[],
        taken=[],
        folder=tmp_path / "aws-check",
    )
    script.home = script.folder / "123456789012-us-east-1"

    def steps(does):
        def look(name):
            script.taken.append(name)
            if isinstance(does[name], BaseException):
                raise does[name]
            return does[name]

        again = does is script.ends
        return [Step(name, "fine", lambda name=name: look(name), again=again) for name in does]

    monkeypatch.setattr(command, "find_account", lambda *_: ACCOUNT)
    monkeypatch.setattr(command, "prices_of", lambda *_: load_prices())
    monkeypatch.setattr(command, "leftovers", lambda _: script.left)
    monkeypatch.setattr(command, "steps_of", lambda _: steps(script.steps))
    monkeypatch.setattr(command, "end_steps", lambda _: steps(script.ends))
    monkeypatch.setattr(command, "tell", lambda *_: script.taken.append("tell"))
    monkeypatch.setattr(command, "Check", Mock)

    def check(**asked):
        given = {"region": "us-east-1", "yes": True} | asked
        command.aws_check(CheckOptions(**given), script.folder)

    def refused(told, **asked):
        with pytest.raises(LaptopError, match=told):
            check(**asked)

    script.check, script.refused = check, refused
    return script


@pytest.mark.parametrize("fails", [None, "step", "terminal"])
def test_a_check_takes_its_steps_destroys_and_tells_what_failed(scripted, monkeypatch, fails):
    said = Mock(side_effect=BrokenPipeError if fails == "terminal" else None)
    monkeypatch.setattr(command.Clock, "say", said)
    if fails == "step":
        scripted.steps["apply"] = StepError("AccessDenied")
        scripted.refused("1 step failed: apply")
    else:
        scripted.check()
    assert scripted.taken == ["apply", "job", "destroy", "nothing left", "tell"]
    assert State.of(scripted.home).kept.over
    assert "up to $1.98" in str(said.call_args_list)


@pytest.mark.parametrize("interrupted", ["apply", "job"])
@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_at_any_step_destroys(scripted, interrupted, how):
    scripted.steps[interrupted] = how()
    with pytest.raises(how):
        scripted.check()
    assert scripted.taken[-3:] == ["destroy", "nothing left", "tell"]
    state = State.of(scripted.home)
    assert state.kept.over
    left_out = state.outcomes["job"]
    assert left_out.seen == "the check was interrupted before this step"
    assert (left_out.status, left_out.passes, left_out.seconds) == ("not checked", False, 0)


@pytest.mark.parametrize("how", ["destroy", "resume"])
@pytest.mark.parametrize("broken", ["destroy", "nothing left"])
def test_what_could_not_be_destroyed_is_destroyed_by_the_next_start(scripted, broken, how):
    ok = scripted.ends[broken]
    scripted.ends[broken] = StepError("left: s3 batchmark-check-results")
    scripted.refused(f"1 step failed: {broken}")
    scripted.refused("is unfinished: continue it with RESUME=yes")
    scripted.ends[broken] = ok
    scripted.taken.clear()
    scripted.check(**{how: True})
    assert scripted.taken == ["destroy", "nothing left", "tell"]
    assert State.of(scripted.home).kept.over


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"budget": "two"}, "BUDGET is 'two': it must be an amount in USD above 0"),
        ({"budget": "nan"}, "BUDGET is 'nan'"),
        ({"budget": "0"}, "BUDGET is '0'"),
        ({"budget": "1"}, r"can cost up to \$1.98, but BUDGET is \$1.00: set BUDGET=1.98"),
        (
            {"parts": "sharing,mwaa"},
            "unknown parts in WITH=: mwaa; known: sharing, multi_node, eks",
        ),
        ({"parts": "sharing"}, r"can cost up to \$2\.\d\d, but BUDGET is \$2.00"),
        ({"resume": True}, "there is no unfinished check in"),
        ({"destroy": True}, "there is no unfinished check in"),
        ({"resume": True, "destroy": True}, "set only one of them"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_made(scripted, asked, line):
    scripted.refused(line, **asked)
    assert scripted.taken == []
    assert State.of(scripted.home) is None


@pytest.fixture
def in_aws(scripted, monkeypatch):
    """The same in an account of AWS, on a machine that can have the image."""
    monkeypatch.setattr(command, "find_account", lambda *_: ACCOUNT._replace(on_aws=True))
    monkeypatch.setattr(command, "refuse_ending", lambda *_: None)
    monkeypatch.setattr(command, "refuse_free_plan", lambda _: None)
    monkeypatch.setattr(command, "refuse_without_image", lambda _: None)
    monkeypatch.setattr(command, "pull", lambda image: scripted.taken.append(f"pull {image}"))
    return scripted


def test_without_an_image_or_credentials_that_last_it_is_refused_before_it_asks(
    in_aws, monkeypatch
):
    refuse = Mock(side_effect=LaptopError("no Docker engine answers"))
    monkeypatch.setattr(command, "refuse_without_image", refuse)
    in_aws.refused("no Docker engine answers", yes=False, image="job:1")
    refuse.assert_called_once_with("job:1")

    def refuse_ending(_, hours):
        raise LaptopError(f"the credentials end in less than {hours} hours")

    monkeypatch.setattr(command, "refuse_ending", refuse_ending)
    for parts, hours in (("", 3), ("sharing", 3), ("multi_node,eks", 5)):
        in_aws.refused(f"in less than {hours} hours", parts=parts)
    assert State.of(in_aws.home) is None


def test_an_image_is_pulled_before_anything_is_made(in_aws, monkeypatch):
    in_aws.check(image="job:1")
    assert in_aws.taken[:2] == ["pull job:1", "apply"]
    in_aws.taken.clear()
    denied = LaptopError("docker pull failed: denied")
    monkeypatch.setattr(command, "pull", Mock(side_effect=denied))
    in_aws.refused("docker pull failed", image="job:2")
    assert in_aws.taken == []


def test_what_another_check_left_is_refused_unless_it_is_only_listed(scripted, monkeypatch):
    with monkeypatch.context() as unseen:  # what can't be looked for at the end is not begun
        denied = {"Error": {"Code": "AccessDenied", "Message": "tag:GetResources"}}
        error = ClientError(denied, "GetResources")
        unseen.setattr(command, "leftovers", Mock(side_effect=error))
        scripted.refused(r"can't search the account .* tag:GetResources")
    scripted.left[:] = ["s3 batchmark-check-results"]
    scripted.refused(r"contains resources from a check .* s3 batchmark-check-results")
    assert scripted.taken == []
    scripted.left[:] = ["arn:aws:sns:us-east-1:123456789012:batchmark-check-alerts"]
    scripted.check()
    assert scripted.taken


def test_what_is_kept_is_gone_on_with_in_the_parts_that_it_began_with_and_destroyed(
    scripted, monkeypatch, capsys
):
    seen = []

    def noting(steps):
        return lambda check: seen.append([part.name for part in check.parts]) or steps(check)

    for name in ("steps_of", "end_steps"):
        monkeypatch.setattr(command, name, noting(getattr(command, name)))
    scripted.check(parts="multi_node,eks", budget="5", keep=True)
    assert "DESTROY=yes` to destroy it" in capsys.readouterr().out
    scripted.check(resume=True, keep=True)
    assert scripted.taken == ["apply", "job", "tell", "tell"]
    scripted.check(destroy=True)
    assert scripted.taken[4:] == ["destroy", "nothing left", "tell"]
    assert seen == [["multi_node", "eks"]] * 5


def test_a_program_that_a_part_needs_is_named(monkeypatch):
    monkeypatch.setattr(command.shutil, "which", lambda name: name != "kubectl")
    command.refuse_without_programs([PARTS["multi_node"]])
    with pytest.raises(LaptopError, match="kubectl is needed for WITH=eks but is not on the PATH"):
        command.refuse_without_programs(PARTS.values())


def test_a_profile_or_region_that_there_is_not_is_refused(scripted, monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    scripted.refused("choose one, for example with REGION=us-east-1", region=None)
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    scripted.refused(r"can't be used: .*nobodys", region=None)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [("y", None), ("", "nothing was created"), ("no", "nothing was created"), (None, "YES=yes")],
)
def test_it_asks_once_where_somebody_is(scripted, monkeypatch, answer, refusal):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: answer is not None))
    monkeypatch.setattr("builtins.input", lambda _: answer)
    if refusal:
        scripted.refused(refusal, yes=False)
    else:
        scripted.check(yes=False)
    assert len(scripted.taken) == (0 if refusal else 5)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("BUDGET=5 REGION=eu-west-1", CheckOptions("eu-west-1", "5")),
        ("RESUME=yes YES=yes", CheckOptions(None, resume=True, yes=True)),
        ("DESTROY=yes AWS_PROFILE=mine", CheckOptions(None, destroy=True)),
        (
            "KEEP=yes IMAGE=registry.example/job:1",
            CheckOptions(None, image="registry.example/job:1", keep=True),
        ),
        ("WITH=sharing KEEP=no", CheckOptions(None, parts="sharing")),
    ],
)
def test_make_hands_on_what_was_typed(typed, asked, monkeypatch):
    called = []
    monkeypatch.setattr(command, "aws_check", lambda order, _: called.append(order))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    *_, last = recipe(f"make aws-check {typed}").splitlines()
    words = shlex.split(last)
    monkeypatch.setattr(sys, "argv", words[words.index("laptop") :])
    assert program.main() == 0
    assert called == [asked]
