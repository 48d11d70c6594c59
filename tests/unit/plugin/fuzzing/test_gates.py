"""What a side of a gate loses, or has twice, changes what the gate says, and never for the better.

On the baseline's side a loss may let the gate pass, but then the last line counts it.
"""

import copy
import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from batchmark.command_line import main
from tests.builders.documents import REPEATS, samples_of
from tests.builders.hostile import fuzzed
from tests.builders.noise import quick_and_long
from tests.builders.runs import build_job, build_row

UNMEASURED = ("skipped", "failed", "interrupted", "unsettled")


def documents(name, seconds):
    """A side as its files' names and what is in them; its rows of size 2 take so long."""
    found = {}
    for repeat in range(REPEATS):
        rows = [
            build_row(samples_of(one, repeat), parameters={"size": size})
            for size, one in ((1, 0.01), (2, seconds))
        ]
        job = build_job("local", rows, repeat=repeat + 1, job_id=f"{name}-{repeat}")
        found[f"{repeat}.json"] = json.loads(job.document.to_json())
    return found


LOSSES = ("no document", "no row", "unmeasured", "fewer samples", "other version", "interrupted")
DOUBLES = ("document twice", "row twice", "samples twice")


def damage(draw, side, name, row, how):
    rows = side[name]["measurements"]
    match how:
        case "no document":
            del side[name]
        case "no row":
            rows.remove(row)
        case "unmeasured":
            row |= {"status": draw(st.sampled_from(UNMEASURED)), "reason": "any"}
        case "fewer samples":
            del row["samples_seconds"][draw(st.integers(1, 19)) :]
        case "other version":
            row["implementation"] = row["implementation"] | {"version": "9"}
        case "interrupted":
            side[name]["status"] = "interrupted"
        case "document twice":
            side["copy.json"] = side[name]
        case "row twice":
            rows.append(row)
        case "samples twice":
            row["samples_seconds"] *= 2


@st.composite
def changed(draw, side):
    """A side that has lost one to three things, or has one twice."""
    side = copy.deepcopy(side)
    changes = draw(
        st.lists(st.sampled_from(LOSSES), min_size=1, max_size=3)
        | st.sampled_from(DOUBLES).map(lambda double: [double])
    )
    for change in changes:
        places = [(name, row) for name in side for row in side[name]["measurements"]]
        if places:
            name, row = draw(st.sampled_from(places))
            damage(draw, side, name, row, change)
    return side


def compared(sides, read):
    """The exit code and the last line of a gate."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in sides]
        for path, side in zip(paths, sides.values(), strict=True):
            path.mkdir()
            for name, document in side.items():
                (path / name).write_text(json.dumps(document))
        code = main(["compare", *map(str, paths), "--gate"])
    out, error = read()
    return code, (out or error).splitlines()[-1]


@quick_and_long("examples", [12], [2_000])
def test_no_loss_and_no_double_goes_unseen(examples, capsys):
    old = documents("old", 0.01)
    news = [documents("new", seconds) for seconds in (0.01, 0.015)]
    before = [compared({"old": old, "new": new}, capsys.readouterr) for new in news]
    assert [code for code, _ in before] == [0, 1]

    @given(st.sampled_from([0, 1]), st.sampled_from(["old", "new", "old and new"]), st.data())
    @fuzzed(examples)
    def lose(case, which, data):
        sides = {"old": old, "new": news[case]}
        sides |= {name: data.draw(changed(sides[name])) for name in which.split(" and ")}
        code, last = compared(sides, capsys.readouterr)
        assert (code, last) != before[case]
        if before[case][0] and not code:
            assert "old" in which
            assert " 0 missing from the baseline" not in last

    lose()
