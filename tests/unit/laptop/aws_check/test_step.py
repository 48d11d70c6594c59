"""Steps in their order: what a failure stops, and what an interrupt leaves to go on from."""

import pytest

from laptop.aws_check.state import State
from laptop.aws_check.step import NotCheckedError, Seen, Step, StepError, take
from laptop.errors import LaptopError


@pytest.fixture
def state(tmp_path):
    return State.begin_in(tmp_path / "check")


class Scripted:
    """Steps that do what a script says, and note that they were taken."""

    def __init__(self, **does):
        self.does = does
        self.taken = []

    def __call__(self, name, *needs, again=False):
        def look():
            self.taken.append(name)
            done = self.does.get(name, Seen("fine"))
            if isinstance(done, BaseException):
                raise done
            return done

        return Step(name, "fine", look, needs, again)


def statuses(state):
    return {name: outcome.status for name, outcome in state.outcomes.items()}


def test_a_failure_stops_only_what_needs_it(state):
    errors = {"f": LaptopError("exit code 1"), "g": KeyError("jobId")}
    step = Scripted(b=StepError("no quota", usd=0.25), **errors)
    said = []
    steps = [step("a"), step("b", "a"), step("c", "b"), step("d", "c"), step("e", "a")]
    take([*steps, step("f"), step("g")], state, said.append)
    assert step.taken == ["a", "b", "e", "f", "g"]
    assert statuses(state) == {
        "a": "ok",
        "b": "failed",
        "c": "not checked",
        "d": "not checked",
        "e": "ok",
        **dict.fromkeys("fg", "failed"),
    }
    assert [state.outcomes[name].seen for name in "fg"] == ["exit code 1", "KeyError: 'jobId'"]
    assert state.outcomes["b"].usd == 0.25
    assert "no quota" in said[1]
    assert state.outcomes["c"].seen == "it depends on steps that were not ok: b"


@pytest.mark.parametrize(("passes", "then"), [(True, "ok"), (False, "not checked")])
def test_what_cannot_be_checked_says_why_and_whether_the_rest_can_go_on(state, passes, then):
    step = Scripted(a=NotCheckedError("no registry", passes=passes))
    take([step("a"), step("b", "a")], state, lambda _: None)
    assert statuses(state) == {"a": "not checked", "b": then}
    assert state.outcomes["a"].seen == "no registry"


@pytest.mark.parametrize("interrupted", ["a", "b", "c"])
def test_an_interrupt_at_any_step_is_gone_on_from(state, interrupted):
    step = Scripted(**{interrupted: KeyboardInterrupt()})
    steps = [step("a"), step("b", "a"), step("c", "b")]
    with pytest.raises(KeyboardInterrupt):
        take(steps, state, lambda _: None)
    found = State.of(state.folder)
    assert found.kept.running == interrupted
    assert interrupted not in found.outcomes
    step.does.clear()
    take(steps, found, lambda _: None)
    assert statuses(found) == dict.fromkeys("abc", "ok")
    taken_twice = {name for name in "abc" if step.taken.count(name) == 2}
    assert taken_twice == {interrupted}
    assert State.of(state.folder).kept.running is None


def test_going_on_takes_again_what_failed_and_what_has_ended(state):
    step = Scripted(b=StepError("refused"))
    steps = [step("a"), step("b"), step("c", "b"), step("airflow", again=True)]
    take(steps, state, lambda _: None)
    step.does.clear()
    step.taken.clear()
    take(steps, State.of(state.folder), lambda _: None)
    assert step.taken == ["b", "c", "airflow"]


def test_a_state_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "state.json").write_text('{"schema_version": 2}')
    with pytest.raises(LaptopError, match=r"state\.json can't be read .* remove"):
        State.of(tmp_path)
    assert State.of(tmp_path / "another") is None
