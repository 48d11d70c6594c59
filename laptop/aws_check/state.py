"""What is known of a check, on disk: whoever starts next finds what the last one made."""

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


class Kept(Record):
    """What the file holds."""

    schema_version: Literal[1] = 1
    began_at: AwareDatetime
    image: str | None = Field(default=None, description="job image to use; null to build one")
    parts: tuple[str, ...] = Field(default=(), description="what was asked for beside the usual")
    running: str | None = Field(default=None, description="the step that was begun and not ended")
    outcomes: tuple[Outcome, ...] = ()
    ending: bool = Field(default=False, description="whether destroying has begun")
    over: bool = Field(default=False, description="whether all that it made is gone")


class State:
    """The state of a check in its folder, written before anything is made."""

    def __init__(self, folder: Path, kept: Kept) -> None:
        self.folder = folder
        self.kept = kept

    @classmethod
    def begin_in(cls, folder: Path, image: str | None = None, parts: tuple[str, ...] = ()) -> State:
        make_private(folder)
        state = cls(folder, Kept(began_at=datetime.now(UTC), image=image, parts=parts))
        state._write()
        return state

    @classmethod
    def of(cls, folder: Path) -> State | None:
        """That of an earlier start; None if there was none.

        Raises:
            LaptopError: the file can't be read.
        """
        path = folder / FILE
        try:
            return cls(folder, Kept.model_validate_json(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            problem = first_problem(error) if isinstance(error, ValidationError) else error
            raise LaptopError(
                f"{path} can't be read ({problem}): put it back, or see that the account has "
                f"nothing left of a check, and remove {folder}"
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
        """Note that destroying begins: from now on there is no other way to go on."""
        self._update(ending=True)

    def is_over(self) -> None:
        """Note that all that the check made is gone."""
        self._update(over=True)

    def _update(self, **changes: object) -> None:
        self.kept = self.kept.model_copy(update=changes)
        self._write()

    def _write(self) -> None:
        write_private(self.folder / FILE, self.kept.model_dump_json(indent=2))
