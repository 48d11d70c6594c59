"""A file that two places need is a copy that a test compares, never a symbolic link.

Archives, Windows and some Git hosts turn a link into a text file that holds its path.
"""

import subprocess

from batchmark.aws.instance_families import FILE
from tests.paths import ROOT


def test_the_repository_holds_no_symbolic_link_but_a_copy_of_the_table_of_families():
    listed = subprocess.check_output(["git", "ls-files", "--stage"], cwd=ROOT, text=True)
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []
    assert (ROOT / "terraform/modules/batch" / FILE.name).read_bytes() == FILE.read_bytes()
