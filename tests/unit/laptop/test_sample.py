"""The sample beside a stack that starts."""

import os
import sys

import pytest

from laptop import sample
from laptop.errors import LaptopError
from tests.waiting import wait_for

ENV = {"PATH": "/usr/bin:/bin"}


def program(tmp_path, monkeypatch, text):
    """What runs in the sample's place."""
    stand_in = tmp_path / "stand_in"
    stand_in.write_text(f"#!{sys.executable}\n{text}")
    stand_in.chmod(0o755)
    monkeypatch.setattr(sample.sys, "executable", str(stand_in))


def test_its_pages_are_there_when_the_block_is_left(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "import sys, time; time.sleep(0.1); open(sys.argv[3], 'w')")
    told = []
    with sample.sample_beside(tmp_path, ENV, told.append):
        assert not (tmp_path / "sample").exists()
        wait_for(lambda: told, "the line that says so", 30, every=0.01)
    assert (tmp_path / "sample").exists()
    assert told == [f"sample pages can be opened: {tmp_path / 'sample' / 'index.html'}"]


def test_its_failure_is_told_with_the_end_of_its_log(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "import sys; sys.exit('no such story')")
    with (
        pytest.raises(LaptopError, match=r"could not build the sample pages.*\nno such story"),
        sample.sample_beside(tmp_path, ENV, print),
    ):
        pass


def test_it_ends_with_a_block_that_fails(tmp_path, monkeypatch):
    its_id = tmp_path / "id"
    text = f"import os, time; open({str(its_id)!r}, 'w').write(f'{{os.getpid()}}'); time.sleep(600)"
    program(tmp_path, monkeypatch, text)

    def fail():
        wait_for(lambda: its_id.exists() and its_id.read_text(), "its id", 30, every=0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), sample.sample_beside(tmp_path, ENV, print):
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(int(its_id.read_text()), 0)
