"""Whatever is given as another tool's file is refused in one line, or its entries are."""

import json

import pytest
from hypothesis import strategies as st

from batchmark.analysis.published import TABLE
from batchmark.core.errors import HistoryError
from batchmark.history.imports.file import FORMATS, ImportedFile, detect, is_beside_results
from tests.builders.hostile import ANY_JSON, DEEP, damaged, fuzz
from tests.builders.imported_files import EXAMPLES
from tests.builders.noise import quick_and_long

NEAR = [
    damaged(path.read_bytes()).map(lambda body: body.decode(errors="replace"))
    for path in (*EXAMPLES, TABLE)
]
# Keys by which formats are recognised, with anything below them.
KEYS = (
    *("benchmarks", "version", "results", "entries"),
    *("commit_hash", "context", "devices", "machine"),
)
RECOGNISED = st.dictionaries(st.sampled_from(KEYS), ANY_JSON).map(json.dumps)
FILES = st.one_of(*NEAR, RECOGNISED, ANY_JSON.map(json.dumps), DEEP, st.text())


def check(text, chosen):
    """Read a file as what it seems to be, and as another format."""
    for name in (None, chosen):
        try:
            if is_beside_results(text, "f"):
                continue
            values = {"format": name or detect(text, "f"), "target": "t", "device": "cpu"}
            file = ImportedFile(file_name="f", text=text, benchmarks_text=text, **values)
            parsed = file.parse()
            said = parsed.losses
            file.files(parsed)
        except HistoryError as error:
            said = [str(error)]
        assert all(len(line.splitlines()) == 1 for line in said)


@quick_and_long("examples", [20], [5_000], pytest.mark.timeout(1800))
def test_no_imported_file_is_an_unknown_error(examples):
    fuzz(examples, check, FILES, st.sampled_from(FORMATS))
