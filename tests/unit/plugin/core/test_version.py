"""What was measured, and the words for where two versions differ."""

import pytest

from batchmark.core.version import Version, shortened, since
from batchmark_job.result.options import schemas
from batchmark_job.result.version import GivenVersion

OLD, NEW = "8ab0c11" + "0" * 33, "3f2a91c" + "0" * 33
DIGEST = "sha256:" + "ab12" * 16
OTHER_IMAGE = "since image sha256:ab12ab12ab12 (image sha256:0"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"commit": OLD, "label": "a"}, {"commit": NEW, "label": "b"}, "since 3f2a91c (8ab0c11"),
        ({"commit": OLD, "label": "1.0"}, {"commit": OLD, "label": "1.1"}, "since 1.1 (1.0"),
        ({"label": "1.0"}, {"commit": NEW, "label": "1.1"}, "since 1.1 (1.0"),
        ({"image_digest": "sha256:0"}, {"image_digest": DIGEST}, OTHER_IMAGE),
        # They agree, or one of them is not known.
        ({}, {}, None),
        ({}, {"commit": NEW}, None),
        ({"commit": OLD}, {}, None),
        ({"commit": NEW, "branch": "main"}, {"commit": NEW, "branch": "work"}, None),
    ],
)
def test_the_first_difference_that_both_sides_know_tells_the_version(before, after, words):
    told = since(Version(**before), Version(**after))
    assert told == (f"{words} before)" if words else "")


def test_a_form_asks_for_what_people_know_alone():
    asked = [name for name, schema in schemas(Version).items() if "command" in schema]
    assert asked == ["commit", "branch", "label"]


def test_what_jobs_disagree_in_is_no_version_and_what_a_person_gives_goes_before_the_plan():
    values = {"commit": [OLD, NEW, None], "label": ["a", None, "a"], "target": ["g5.xlarge"]}
    assert Version.agreed(values) == Version(label="a")
    hostile = Version.agreed({"label": ["a\nb" + "x" * 999]})
    assert hostile.label.startswith("a\u240ab")
    assert GivenVersion(commit=" ", branch="", label=None) == GivenVersion()
    planned = Version(commit=OLD, label="nightly")
    assert Version(commit=NEW).over(planned) == Version(commit=NEW, label="nightly")
    assert Version(commit=NEW).over(None) == Version(commit=NEW)


def test_a_version_in_words_with_long_texts_shortened():
    version = Version(commit=NEW, branch="main", label="1.1", image_digest=DIGEST)
    assert str(version) == "commit 3f2a91c, branch main, label 1.1, image sha256:ab12ab12ab12"
    assert str(Version()) == ""
    assert shortened("commit", "20261128") == shortened("label", "20261128") == "20261128"
    assert shortened("label", OLD) == OLD
    assert len(shortened("branch", "x" * 300)) == 40
