"""Determines whether a workflow run is for a pull request, the main branch, or neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, Self

from batchmark.github import programs

# Events that run the branch's own code. Others, such as pull_request_target, report the main branch
# but may have checked out anything.
OF_A_BRANCH = ("push", "schedule", "workflow_dispatch")


class Event(NamedTuple):
    repository: str
    main: str  # the default branch
    on_main: bool
    pull_request: int | None
    commit: str

    @classmethod
    def read(cls, repository: str, name: str, ref: str, commit: str, payload: Path) -> Self:
        """Build the event from the runner's variables and its payload file."""
        told = json.loads(payload.read_text())
        main = told.get("repository", {}).get("default_branch")
        if main is None:  # a schedule's payload may lack it
            main = programs.api(f"repos/{repository}")["default_branch"]
        pull_request = told.get("pull_request")
        return cls(
            repository,
            main,
            name in OF_A_BRANCH and ref == f"refs/heads/{main}",
            pull_request["number"] if pull_request else None,
            # For a pull request, the runner's commit is a temporary merge.
            pull_request["head"]["sha"] if pull_request else commit,
        )
