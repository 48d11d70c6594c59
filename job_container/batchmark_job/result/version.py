"""The version being measured, as given by users or their CI."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field

from batchmark_job.result.options import Options, option
from batchmark_job.result.values import IN_A_LINE, MOST_CHARACTERS_OF_NAME


def _or_none(given: Any) -> Any:
    return given.strip() or None if isinstance(given, str) else given


Given = Annotated[str, Field(max_length=MOST_CHARACTERS_OF_NAME), IN_A_LINE]
_Given = Annotated[Given | None, BeforeValidator(_or_none)]


class GivenVersion(Options):
    """The version that a user or CI gave; each field is null if not given."""

    commit: _Given = option(
        None,
        "The commit being measured. If a later one is slower, the alert names the first slow "
        "commit.",
        command="commit being measured, instead of the one from CI",
    )
    branch: _Given = option(
        None,
        "The branch of that commit.",
        command="branch of that commit",
    )
    label: _Given = option(
        None,
        "Any text to find the run by, such as a release.",
        command="any text to find the run by, such as a release",
    )

    def over(self, other: GivenVersion | None) -> Self:
        """Return this version, with missing fields filled in from the other one."""
        own = self.model_dump(exclude_none=True)
        return type(self)(**(other.model_dump(exclude_none=True) if other else {}) | own)
