"""Which version a job is told to measure, by its options and by CI."""

import argparse

import pytest

from batchmark_job.errors import InputError
from batchmark_job.given_version import given_version
from batchmark_job.option_values import add_options
from batchmark_job.result.version import GivenVersion

GITHUB = {"GITHUB_SHA": "3f2a91c", "GITHUB_REF_NAME": "12/merge", "GITHUB_HEAD_REF": "faster"}


def given(*options, environment=None):
    parser = argparse.ArgumentParser()
    add_options(parser, GivenVersion)
    return given_version(parser.parse_args(options), environment or {})


@pytest.mark.parametrize(
    ("environment", "branch"),
    [
        (GITHUB, "faster"),
        (GITHUB | {"GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main"}, "main"),
        ({"CI_COMMIT_SHA": "3f2a91c", "CI_COMMIT_REF_NAME": "main"}, "main"),
        ({"GIT_COMMIT": "3f2a91c"}, None),
    ],
)
def test_ci_says_commit_and_branch(environment, branch):
    assert given(environment=environment) == GivenVersion(commit="3f2a91c", branch=branch)
    assert given(environment={"GITHUB_SHA": "", "HOME": "/root"}) is None, "nobody says anything"


def test_options_go_before_ci_whose_branch_is_of_its_own_commit():
    options = ("--commit", "8ab0c11", "--label", "baseline")
    assert given(*options, environment=GITHUB) == GivenVersion(commit="8ab0c11", label="baseline")
    assert given("--label", "nightly", environment=GITHUB) == GivenVersion(
        commit="3f2a91c", branch="faster", label="nightly"
    )


def test_what_can_not_be_had_is_refused_of_an_option_and_fails_no_job_of_ci_s():
    with pytest.raises(InputError, match=r"--label: 'a.b' contains .*control.*remove it"):
        given("--label", "a\nb")
    with pytest.raises(InputError, match=r"--branch: .*at most 300 characters"):
        given("--branch", "b" * 301)
    assert given(environment={"GITHUB_SHA": "a\nb" + "x" * 999}).commit.startswith("a\u240ab")
