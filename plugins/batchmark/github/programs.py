"""Runs programs installed on the runner, with the job's token and credentials."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from batchmark.core.errors import GitHubError

REFUSED = "Resource not accessible by integration"  # the job's token lacks the permission


def output(*command: str, given: str | None = None) -> str:
    """Run a program and return what it prints.

    Raises:
        GitHubError: the program isn't installed, or it failed.
    """
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise GitHubError(f"{command[0]} is not on the PATH; install it on the runner") from None
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        if REFUSED in said:
            said += "; add `permissions: actions: read` to the job"
        raise GitHubError(f"`{' '.join(command[:3])} …` failed: {said}")
    return done.stdout


def api(*arguments: str, given: str | None = None) -> Any:
    """Call GitHub's API and return the parsed response."""
    return json.loads(output("gh", "api", *arguments, given=given))
