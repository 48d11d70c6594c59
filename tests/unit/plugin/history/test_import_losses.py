"""What is wrong in another tool's file costs itself alone, and is named with its place."""

import copy
import csv
import io
import json
import math
import re
from functools import cache, partial

import pytest
from hypothesis import strategies as st

from batchmark.analysis.published import TABLE
from batchmark.core.errors import HistoryError
from batchmark.history.imports.file import detect
from batchmark.history.imports.names import stable
from batchmark.history.rebuild import rebuild
from batchmark.history.series import COLUMNS, series_histories
from batchmark_job.result.values import MOST_CHARACTERS_OF_NAME
from tests.builders.history import BUCKET, REGION
from tests.builders.hostile import fuzz, inside, paths_in
from tests.builders.imported_files import (
    ASV,
    CSV,
    GITHUB_JSON,
    GIVEN,
    GOOGLE,
    HYPERFINE,
    HYPERFINE_2,
    NVBENCH,
    PYPERF,
    PYTEST,
    edited,
    imported,
)
from tests.builders.noise import quick_and_long


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("<function f at 0x7f3c5a1b2d30>", "<function f>"),
        ("X[<t.Model object at 0x000001F2A3B4C5D6>]", "X[<t.Model object>]"),
        ("test_call[<cell at 0x10: int object at 0x20>]", "test_call[<cell: int object>]"),
        ("BM_Call/0x55d0c8a012f0/4", "BM_Call//4"),
        ("mask=0xff", "mask=0xff"),
        ("seed 0xcbf29ce484222325", "seed 0xcbf29ce484222325"),
        ("look at 0 x", "look at 0 x"),
    ],
)
def test_a_name_has_no_address(name, without):
    assert stable(name) == without


def test_a_name_has_a_limit_and_different_ones_stay_different():
    names = {stable("x" * length) for length in range(250, 400)}
    assert len(names) == 150
    assert max(map(len, names)) == MOST_CHARACTERS_OF_NAME


def model_at(address):
    def edit(document):
        document["datetime"] = f"2026-10-31T22:14:{address:02}"
        first, second = document["benchmarks"]
        shown = f"UNSERIALIZABLE[<function f at 0x7f3c5a1b2d{address}>]"
        first.update(params={"f": shown}, param="f0", fullname="t.py::test_call[f0]")
        second |= first | {"fullname": "t.py::test_call[f1]", "param": "f1"}
        second["stats"] = first["stats"]

    return edited(PYTEST, edit)


def test_a_parameter_with_an_address_is_one_series_and_a_whole_data_set_is_cut(bucket):
    """And two of them in one run, which differ by their address alone, by pytest's id."""
    for address in (10, 20, 30):
        bucket.history.append_import(model_at(address))
    histories = series_histories(bucket.history.read(COLUMNS), "time")
    assert {(one.key.workload, len(one.run_ids)) for one in histories} == {
        ("t.py::test_call[f0]", 3),
        ("t.py::test_call[f1]", 3),
    }

    def edit(document):
        for number, benchmark in enumerate(document["benchmarks"]):
            data = [{"id": item, "name": "x" * 20} for item in range(number, 500)]
            benchmark.update(params={"data": data}, param="big", fullname="t.py::test_loads[big]")

    rows = edited(PYTEST, edit).rows()
    assert {row["workload"] for row in rows} == {"t.py::test_loads[big]"}
    points = {row["parameters"] for row in rows}
    assert len(points) == 2
    assert max(map(len, points)) < 2 * MOST_CHARACTERS_OF_NAME


def change(*path, **values):
    """Gives what a path leads to other values."""
    return lambda document: inside(document, path).update(values)


commit = partial(change, "entries", "Rust", 0)
bench = partial(commit, "benches", 0)
sort, join = partial(change, "benchmarks", 0), partial(change, "benchmarks", 1)
cpu, results = partial(change, "machine_info", "cpu"), partial(change, "results")
TIME = "sorting.Sort.time_sort"
FIB = "entries.Rust[0].benches[0] 'fib_10'"
SORT = "benchmarks[0] 'tests/test_sorting.py::test_sort[random-1000]'"
JOIN = "benchmarks[1] 'tests/test_sorting.py::test_join'"


@pytest.mark.parametrize(
    ("path", "edit", "lost", "loss"),
    [
        (GITHUB_JSON, bench(value="NaN"), 1, f"{FIB}: value is 'NaN', not a number"),
        (GITHUB_JSON, bench(value=None), 1, f"{FIB}: value is null or missing"),
        (GITHUB_JSON, bench(value=10**400), 1, f"{FIB}: value is 1{'0' * 99}, not a finite"),
        (GITHUB_JSON, bench(value=True), 1, f"{FIB}: value is True, not a number"),
        (GITHUB_JSON, bench(unit=None), 1, f"{FIB}: unit is null or missing"),
        (GITHUB_JSON, bench(name="\ud800"), 1, r": name is '\ud800', not valid text"),
        (GITHUB_JSON, commit(commit=None), 0, "entries.Rust[0]: commit is null or missing"),
        (GITHUB_JSON, commit(commit="x"), 0, "entries.Rust[0]: commit is 'x', not an object"),
        (PYTEST, sort(stats=None), 1, f"{SORT}: stats is null or missing"),
        (PYTEST, sort(stats={"rounds": 3}), 1, f"{SORT}: stats.min is null or missing"),
        (PYTEST, sort(stats={"data": [1, "1 s"]}), 1, "stats.data[1] "),
        (PYTEST, join("stats", min="fast"), 1, f"{JOIN}: stats.min is 'fast', not a number"),
        (PYTEST, join("stats", rounds=10**12), 1, f"{JOIN}: stats.rounds is 1000000000000, not"),
        (PYTEST, join(fullname="\ud800"), 1, r"fullname is '\ud800', not valid text"),
        (PYTEST, lambda document: document.pop("commit_info"), 0, None),
        (PYTEST, change(commit_info={"id": 5}), 0, "id is 5, not valid text"),
        (PYTEST, cpu(count="many"), 0, "machine_info.cpu.count is 'many', not a number"),
        (PYPERF, change("benchmarks", 0, "metadata", name=None), 1, "metadata.name is null or"),
        (ASV, change("params", cpu=7), 0, "params.cpu is 7, not valid text"),
        (ASV, results(**{TIME: [[10**400], []]}), 4, f"results.{TIME}: result is 1000"),
    ],
)
def test_a_bad_entry_costs_itself_and_is_named_with_its_place(path, edit, lost, loss):
    before, after = imported(path).parse(), edited(path, edit).parse()
    new = [line for line in after.losses if line not in before.losses]
    assert len(new) == (loss is not None)
    assert not new or loss in new[0]
    was, now = (sum(not one.reason for one in each.measurements) for each in (before, after))
    assert was - now == lost


def doubled(document):
    benches = document["entries"]["Rust"][0]["benches"]
    benches.append(benches[0] | {"value": 900})


def test_two_benchmarks_of_one_name_in_a_run_are_refused_by_name(bucket):
    """Also by a rebuild of what an earlier release pooled."""
    file = edited(GITHUB_JSON, doubled)
    before, after = imported(GITHUB_JSON).parse(), file.parse()
    (loss,) = set(after.losses) - set(before.losses)
    assert loss.startswith("'Rust/fib_10' appears 2 times in run 1111")
    assert "entries.Rust[0].benches[0] 'fib_10', entries.Rust[0].benches[2] 'fib_10'" in loss
    gone = [one for one in before.measurements if one not in after.measurements]
    assert [one.point for one in gone] == [before.measurements[0].point]
    bucket.history.append_import(file)
    (problem,) = rebuild(bucket.s3, BUCKET, REGION).problems
    start = f"{file.key} ({GITHUB_JSON.name}): 1 entry left out: 'Rust/fib_10' appears 2 times"
    assert problem.startswith(start)


@pytest.mark.parametrize(
    ("values", "loss"),
    [
        ('"value": 135, "value": 900', "value appears twice"),
        # More digits than Python reads.
        (f'"value": {"9" * 5000}', "value is inf, not a finite number"),
    ],
)
def test_a_value_that_json_allows_and_nobody_means_costs_its_entry(values, loss):
    text = GITHUB_JSON.read_text().replace('"value": 135', values)
    assert f"{FIB}: {loss}" in imported(GITHUB_JSON, text).parse().losses


def test_asvs_old_results_are_recognised():
    old = {"version": 1, "commit_hash": "1" * 40, "date": 1601111111000, "params": {"cpu": "c"}}
    old |= {"python": "3.8", "results": {"b.time_x": 0.1}}
    assert detect(json.dumps(old), "f") == "asv"
    with pytest.raises(HistoryError, match="version 1: run `asv update` to convert them to 2"):
        imported(ASV, json.dumps(old)).parse()


def test_no_dump_of_a_schema_reaches_a_user():
    document = json.loads(TABLE.read_text())
    document["rows"][0]["gpu_seconds"] = "fast"
    before = set(imported(TABLE).parse().losses)
    (loss,) = set(imported(TABLE, json.dumps(document)).parse().losses) - before
    assert loss.startswith("rows[0] 'matmul': gpu_seconds: Input should be a valid number")
    assert len(loss.splitlines()) == 1
    del document["total"]
    with pytest.raises(HistoryError) as raised:
        imported(TABLE, json.dumps(document)).parse()
    assert str(raised.value).splitlines() == [
        f"{TABLE.name} can't be read as published-table: total: Field required; "
        "correct the file or omit it"
    ]


# Where each format has its entries: of lists and, in asv and github-action-benchmark, by name.
ENTRIES = {
    PYTEST: [("benchmarks",)],
    GITHUB_JSON: [("entries",), ("entries", "*"), ("entries", "*", "*", "benches")],
    ASV: [("results",)],
    TABLE: [("rows",)],
    PYPERF: [("benchmarks",)],
    GOOGLE: [("benchmarks",)],
    HYPERFINE: [("results",)],
    HYPERFINE_2: [("results",)],
    NVBENCH: [("benchmarks",), ("benchmarks", "*", "states")],
    CSV: [("lines",)],
}
BAD = (None, math.nan, "NaN", "18,794.12", "", -1, 10**400, [], {}, "\ud800", True, "a\n::error::b")
DOUBLED = "\x01"  # behind a key that shall stand twice


def read(path):
    if path == CSV:
        return {"lines": list(csv.DictReader(io.StringIO(path.read_text())))}
    return json.loads(path.read_text())


def written(path, document):
    if path != CSV:
        return json.dumps(document).replace("\\u0001", "")
    lines = document["lines"]
    body = io.StringIO()
    writer = csv.DictWriter(body, list(read(path)["lines"][0]), extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    return body.getvalue().replace("\ud800", "?")


def changed(document, path, how):
    """JSON with a value taken away, doubled, or another one in its place."""
    document = copy.deepcopy(document)
    *above, last = path
    parent = inside(document, above)
    if how == "gone":
        del parent[last]
    elif how != "twice":
        parent[last] = how
    elif isinstance(parent, list):
        parent.insert(last, copy.deepcopy(parent[last]))
    else:
        parent[f"{last}{DOUBLED}"] = parent[last]
    return document


def entries_of(example, path):
    """The place of each entry that a path leads into, the outermost first."""
    for length in range(1, len(path)):
        above = path[:length]
        if any(fits(above, pattern) for pattern in ENTRIES[example]):
            yield spelt(path[: length + 1])


def fits(path, pattern):
    return len(path) == len(pattern) and all(
        want in ("*", key) for want, key in zip(pattern, path, strict=True)
    )


def spelt(path):
    if path[0] == "lines":
        return f"line {path[1] + 2}"
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return "".join(steps).removeprefix(".")


def is_of(place, entry):
    return re.match(rf"{re.escape(entry)}($|[ .\[])", place) is not None


def check(example, change, *, encoded):
    path, how = change
    good, before = parsed(example)
    document = read(example)
    text = written(example, changed(document, path, how))
    entries = [*entries_of(example, path)]
    file = good.model_copy(update={"text": text})
    try:
        after = file.parse()
    except HistoryError as error:
        refused = str(error)
        assert not entries, "an entry costs all others"
        assert len(refused.splitlines()) == 1
        return
    if encoded:
        file.files(after)  # whatever is left fits the history
    told = [line for line in after.losses if line not in before.losses]
    assert all(len(line.splitlines()) == 1 for line in told)
    kept = {point_of(example, one): one for one in after.measurements}
    repetitions_of = name_of_repetitions(example, document, path)
    for one in before.measurements:
        same = kept.get(point_of(example, one))
        if entries and not is_of(one.place, entries[-1]) and one.workload != repetitions_of:
            # Unless the entry is now named as another.
            assert same or any("appears 2 times" in line for line in told), one.place
            assert not same or (same.figures, same.reason) == (one.figures, one.reason)
    lost = kept_in(before) - kept_in(after)
    is_entry = how == "gone" and entries and spelt(path) == entries[-1]
    is_emptied = how in ([], {}) and any(fits(path, pattern) for pattern in ENTRIES[example])
    if lost > 0 and not is_entry and not is_emptied:  # of which nobody can know
        other_unit = after.left_out.other_units != before.left_out.other_units
        place = entries[-1] if entries else ""
        assert other_unit or any(place in line for line in told), told


def kept_in(file):
    """How many measurements have not failed; what a tool skipped is one of them."""
    return sum(not one.reason or one.skipped for one in file.measurements)


@cache
def parsed(example):
    good = imported(example, **GIVEN)
    return good, good.parse()


def point_of(example, one):
    """Without its run where the date of a run is that of its first entry."""
    *machine, run_id, workload, parameters = one.point
    return *machine, run_id if example != PYPERF else "", workload, parameters


def name_of_repetitions(example, document, path):
    """Whose repetition an entry is: several entries make one benchmark."""
    if example in (GOOGLE, CSV) and len(path) > 1 and path[0] in ("benchmarks", "lines"):
        entry = document[path[0]][path[1]]
        return entry.get("run_name", entry["name"]).removesuffix("/repeats:3")
    return None


def changes(example):
    """Each value of an example taken away, doubled, or replaced by a bad one."""
    paths = [path for path in paths_in(read(example)) if example != CSV or len(path) > 1]
    values = [path for path in paths if example != CSV or len(path) > 2]
    return st.one_of(
        st.tuples(st.sampled_from(paths), st.sampled_from(("gone", "twice"))),
        st.tuples(st.sampled_from(values), st.sampled_from(BAD)),
    )


@pytest.mark.parametrize("example", ENTRIES, ids=lambda path: path.stem)
@quick_and_long("examples", [20], [3_000], pytest.mark.timeout(1800))
def test_whatever_is_wrong_with_one_entry_costs_no_other(example, examples):
    fuzz(examples, partial(check, example, encoded=examples > 100), changes(example))
