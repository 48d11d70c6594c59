"""A check's state on disk, which tells the next start what earlier ones created."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, Field, ValidationError

from batchmark.core.record import Record, first_problem
from laptop.aws_check.step import Outcome
from laptop.errors import LaptopError
from laptop.private_files import make_private, write_private

FILE = "state.json"


class StateFile(Record):
    """The contents of the state file."""

    schema_version: Literal[1] = 1
    began_at: AwareDatetime
    image: str | None = Field(default=None, description="existing job image; null if one is built")
    parts: tuple[str, ...] = Field(default=(), description="optional parts that were requested")
    running: str | None = Field(default=None, description="name of the unfinished step")
    outcomes: tuple[Outcome, ...] = ()
    ending: bool = Field(default=False, description="whether destruction has begun")
    over: bool = Field(
        default=False, description="whether everything the check created has been destroyed"
    )


class State:
    """A check's state, saved in its folder before anything is created."""

    def __init__(self, folder: Path, kept: StateFile) -> None:
        self.folder = folder
        self.kept = kept

    @classmethod
    def begin_in(cls, folder: Path, image: str | None = None, parts: tuple[str, ...] = ()) -> State:
        make_private(folder)
        state = cls(folder, StateFile(began_at=datetime.now(UTC), image=image, parts=parts))
        state._write()
        return state

    @classmethod
    def of(cls, folder: Path) -> State | None:
        """Return the state saved by an earlier start, or None if there was none.

        Raises:
            LaptopError: the state file can't be read.
        """
        path = folder / FILE
        try:
            return cls(folder, StateFile.model_validate_json(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            problem = first_problem(error) if isinstance(error, ValidationError) else error
            raise LaptopError(
                f"{path} can't be read ({problem}): restore it, or make sure that no resources "
                f"from an earlier check are left in the account, then remove {folder}"
            ) from error

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        return {outcome.step: outcome for outcome in self.kept.outcomes}

    def begin(self, step: str) -> None:
        self._update(running=step)

    def end(self, outcome: Outcome) -> None:
        others = (one for one in self.kept.outcomes if one.step != outcome.step)
        self._update(running=None, outcomes=(*others, outcome))

    def is_ending(self) -> None:
        """Record that destruction has begun, so that the check can no longer be continued."""
        self._update(ending=True)

    def is_over(self) -> None:
        """Record that everything the check created has been destroyed."""
        self._update(over=True)

    def _update(self, **changes: object) -> None:
        self.kept = self.kept.model_copy(update=changes)
        self._write()

    def _write(self) -> None:
        write_private(self.folder / FILE, self.kept.model_dump_json(indent=2))
