"""Finds the results to compare with: in a folder, in S3, or in an artifact from the main branch."""

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
    """Find the baseline, downloading it to `into` if needed; return None if there is none yet.

    Raises:
        GitHubError: the baseline's location is invalid or can't be read.
    """
    if place.startswith(S3):
        if not re.fullmatch(r"s3://[^/]+/.+", place):
            raise GitHubError(
                f"the baseline {place} is not a valid S3 folder: use the form s3://bucket/folder/"
            )
        programs.output("aws", "s3", "cp", "--recursive", "--only-show-errors", place, str(into))
        return Baseline(into, markdown(place)) if into.is_dir() else None
    if is_artifact(place):
        if not re.fullmatch(ARTIFACT, place):
            raise GitHubError(
                f"{place!r} is not a valid artifact name: use only letters, digits, dots, "
                "underscores and hyphens"
            )
        return _artifact(place, event, into)
    if not Path(place).is_dir():
        raise GitHubError(
            f"the baseline {place} is neither an existing folder nor an artifact name"
        )
    return Baseline(Path(place), markdown(place))


def is_artifact(place: str) -> bool:
    return "/" not in place and not place.startswith(".")


def _artifact(name: str, event: Event, into: Path) -> Baseline | None:
    """Download the `name` artifact of main's newest successful run that has one, if any."""
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
    """Return whether a run is from our own main branch, not a fork's branch with the same name."""
    is_ours = run["head_repository_id"] == run["repository_id"]
    return bool(is_ours and run["head_branch"] == event.main)
