"""Keeps a single comment on a pull request up to date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from batchmark.core.errors import GitHubError
from batchmark.github import programs

AUTHOR = "github-actions[bot]"  # the author of comments written with a job's token
MOST_CHARACTERS = 65_536  # GitHub refuses longer comments
CUT = "\n\nFor the rest, see the job summary.\n"


def renew(repository: str, pull_request: int, name: str, text: str) -> bool:
    """Create or update the comment called `name`; return False if the token lacks permission.

    Raises:
        GitHubError: a GitHub API call failed for another reason.
    """
    marker = f"<!-- batchmark: {name} -->\n"
    body = json.dumps({"body": _fitting(marker + text)})
    all_of_it = f"repos/{repository}/issues/{pull_request}/comments"
    try:
        pages = programs.api("--paginate", "--slurp", f"{all_of_it}?per_page=100")
        ours = next((one["id"] for page in pages for one in page if _is_ours(one, marker)), None)
        method, path = ("POST", all_of_it)
        if ours is not None:
            method, path = ("PATCH", f"repos/{repository}/issues/comments/{ours}")
        programs.api("--method", method, path, "--input", "-", given=body)
    except GitHubError as error:
        if programs.REFUSED not in str(error):
            raise
        return False
    return True


def _is_ours(comment: Mapping[str, Any], marker: str) -> bool:
    """Return whether we wrote the comment. Its marker can be forged, but its author can't."""
    author = (comment["user"] or {}).get("login")
    return author == AUTHOR and comment["body"].replace("\r\n", "\n").startswith(marker)


def _fitting(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return text[: text.rindex("\n", 0, MOST_CHARACTERS - len(CUT))] + CUT
