"""Folders of hosts."""

import pytest

from local_cloud.batch.jobs.volumes import below


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/fsx", ""),
        ("/fsx/", ""),
        ("//fsx//a/b/", "a/b"),
        ("/fsx/a/../b", "b"),
        ("/fsx/..", None),
        ("/fsxx", None),
        ("/data/fsx", None),
    ],
)
def test_what_lies_below_a_folder(path, rest):
    assert below("/fsx", path) == rest
