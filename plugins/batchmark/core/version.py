"""The version of what a run measured, and descriptions of version differences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Self

from batchmark_job.result.printable import printable
from batchmark_job.result.values import MOST_CHARACTERS_OF_NAME, Name, optional
from batchmark_job.result.version import GivenVersion

DIGEST = "sha256:"
DIGITS_OF_DIGEST = 12  # as Docker shows it
DIGITS_OF_COMMIT = 7  # as Git does
MOST_OF_TEXT = 40  # characters of any other
_HASH = re.compile("[0-9a-f]{40,64}")
# Fields that distinguish two versions, the most specific first; a branch alone doesn't.
TELLING = ("commit", "label", "image_digest")
HASHES = ("commit", "image_digest")
NAMES = {
    "commit": "commit",
    "branch": "branch",
    "label": "label",
    "image_digest": "image",
}


class Version(GivenVersion):
    """The version of what a run measured; unknown fields are null."""

    image_digest: Name | None = optional("digest of the container image; null outside a container")

    @classmethod
    def agreed(cls, values: Mapping[str, Iterable[str | None]]) -> Self:
        """Build a version from each field's values, keeping fields whose known values all agree."""
        known = {name: {one for one in values.get(name, ()) if one} for name in NAMES}
        return cls(
            **{
                name: printable(one.pop())[:MOST_CHARACTERS_OF_NAME]
                for name, one in known.items()
                if len(one) == 1
            }
        )

    def __str__(self) -> str:
        """List all known fields."""
        known = ((name, getattr(self, name)) for name in NAMES)
        return ", ".join(
            f"{NAMES[name]} {shortened(name, value)}" for name, value in known if value
        )


def since(before: Version, after: Version) -> str:
    """Describe the most specific difference between two versions, or return "" if there is none.

    Branches are not compared, nor are fields that are unknown in either version.
    """
    for name in TELLING:
        old, new = getattr(before, name), getattr(after, name)
        if old and new and old != new:
            return f"since {_brief(name, new)} ({_brief(name, old)} before)"
    return ""


def matches(name: str, wanted: str, value: str) -> bool:
    """Whether a field has the wanted value; for a hash, its first digits suffice."""
    return value == wanted or (name in HASHES and value.startswith(wanted))


def shortened(name: str, value: str) -> str:
    """Shorten a value for use in a sentence, recognising digests in any field."""
    if value.startswith(DIGEST):
        return value[: len(DIGEST) + DIGITS_OF_DIGEST]
    if name == "commit" and _HASH.fullmatch(value):
        return value[:DIGITS_OF_COMMIT]
    if name not in NAMES or len(value) <= MOST_OF_TEXT:
        return value
    return value[: MOST_OF_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _brief(name: str, value: str) -> str:
    text = shortened(name, value)
    return f"{NAMES[name]} {text}" if name == "image_digest" else text
