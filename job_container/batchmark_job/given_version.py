"""Determines the version that a job measures, from its options or else from CI."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from batchmark_job.option_values import parse
from batchmark_job.result.printable import printable
from batchmark_job.result.values import MOST_CHARACTERS_OF_NAME
from batchmark_job.result.version import GivenVersion

# The first one set counts: GitHub Actions, GitLab, Jenkins, CircleCI, Buildkite. A GitHub pull
# request's own branch comes before the name of its merge.
OF_CI = {
    "commit": ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "CIRCLE_SHA1", "BUILDKITE_COMMIT"),
    "branch": (
        *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"),
        *("BRANCH_NAME", "CIRCLE_BRANCH", "BUILDKITE_BRANCH"),
    ),
}


def given_version(
    arguments: argparse.Namespace, environment: Mapping[str, str]
) -> GivenVersion | None:
    """Return the version from the options or from CI, or None if neither gives one.

    CI's commit and branch are used only if the options give neither: the two belong together.

    Raises:
        InputError: an option is invalid.
    """
    version = parse(GivenVersion, arguments)
    if not (version.commit or version.branch):
        known = {name: _first(environment, names) for name, names in OF_CI.items()}
        version = GivenVersion(**known, label=version.label)
    return None if version == GivenVersion() else version


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    found = next((environment[name] for name in names if environment.get(name)), None)
    return found and printable(found)[:MOST_CHARACTERS_OF_NAME]
