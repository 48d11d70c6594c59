"""Files that are no result documents are named, and read no further than they must be."""

import os
from pathlib import Path

import pytest

from batchmark.core.errors import CollectError
from batchmark.runs.document_files import read_documents
from tests.builders.documents import ODD_FILES, repeats


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "says"), ODD_FILES.values(), ids=ODD_FILES)
def test_what_is_no_file_or_has_no_end_is_named(tmp_path, make, says):
    folder = repeats(tmp_path / "new", 0.01, count=1)
    odd = folder / "odd.json"
    make(odd)
    with pytest.raises(CollectError, match=says) as caught:
        read_documents(folder)
    assert str(odd) in str(caught.value)


@pytest.mark.parametrize("made", ["file", "folder"])
def test_what_may_not_be_read_is_named(tmp_path, made, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    folder = repeats(tmp_path / "new", 0.01, count=1)
    monkeypatch.setattr(*(Path, "open") if made == "file" else (os, "listdir"), refuse)
    with pytest.raises(CollectError, match=r"new.* can't be read: Permission denied"):
        read_documents(folder)
