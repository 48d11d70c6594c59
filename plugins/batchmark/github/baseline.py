"""The results to compare with: a folder, a place in S3, or an artifact of the main branch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from batchmark.core.errors import GitHubError
from batchmark.core.output import markdown
from batchmark.github import programs
from batchmark.github.event import OF_A_BRANCH, Event

S3 = "s3://"
ARTIFACT = r"[A-Za-z0-9][A-Za-z0-9._-]*"


class Baseline(NamedTuple):
    folder: Path
    origin: str  # in Markdown


def find(place: str, event: Event, into: Path) -> Baseline | None:
    """Fetch it into a folder; None where there is none yet.

    Raises:
        GitHubError: there can be none in such a place, or it could not be asked.
    """
    if place.startswith(S3):
        if not re.fullmatch(r"s3://[^/]+/.+", place):
            raise GitHubError(f"the baseline {place} is no folder; give one: s3://bucket/folder/")
        programs.output("aws", "s3", "cp", "--recursive", "--only-show-errors", place, str(into))
        return Baseline(into, markdown(place)) if into.is_dir() else None
    if is_artifact(place):
        if not re.fullmatch(ARTIFACT, place):
            raise GitHubError(f"the baseline {place!r} is no artifact's name: letters, digits, ._-")
        return _artifact(place, event, into)
    if not Path(place).is_dir():
        raise GitHubError(f"the baseline {place} is not a folder; give one, or an artifact's name")
    return Baseline(Path(place), markdown(place))


def is_artifact(place: str) -> bool:
    return "/" not in place and not place.startswith(".")


def _artifact(name: str, event: Event, into: Path) -> Baseline | None:
    """Of the newest run on the main branch that passed and left one."""
    found = programs.api(f"repos/{event.repository}/actions/artifacts?name={name}&per_page=100")
    newest_first = sorted(found["artifacts"], key=lambda one: str(one["created_at"]), reverse=True)
    for one in newest_first:
        if one["expired"] or not _is_of_main(one["workflow_run"], event):
            continue
        run = programs.api(f"repos/{event.repository}/actions/runs/{one['workflow_run']['id']}")
        if run["conclusion"] == "success" and run["event"] in OF_A_BRANCH:
            where = ("--repo", event.repository, "--name", name, "--dir", str(into))
            programs.output("gh", "run", "download", str(run["id"]), *where)
            commit = f"{markdown(event.main)} at {run['head_sha'][:7]}"
            return Baseline(into, f"[{commit}]({run['html_url']})")
    return None


def _is_of_main(run: Mapping[str, Any], event: Event) -> bool:
    """Forks have branches of this name, too."""
    is_ours = run["head_repository_id"] == run["repository_id"]
    return bool(is_ours and run["head_branch"] == event.main)
