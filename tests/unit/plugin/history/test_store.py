"""The history in moto's S3, written exactly once, and read by column and partition."""

import math
from contextlib import suppress
from datetime import date, datetime, timedelta
from io import BytesIO

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batchmark.aws.result_bucket import COLLECTED, PLAN, RunStore
from batchmark.core.names import slug, url_safe
from batchmark.core.run import RunPlan
from batchmark.history.columns import ALL_COLUMNS, SCHEMA
from batchmark.history.parquet import (
    MOST_ROWS,
    MOST_TEXT_BYTES,
    TEXT,
    FileLocation,
    decode,
    encode,
    encode_rows,
    schema_for,
)
from batchmark.history.rows import history_rows
from batchmark.runs.collected_runs import readable_run
from tests.builders.history import (
    BUCKET,
    NOON,
    REGION,
    RUN_ID,
    SIZES,
    ResultBucket,
    finished,
    run_of,
    two_targets,
)
from tests.builders.runs import PRICES, build_job, build_lost, build_rows
from tests.stand_ins.moto_account import moto_account, moto_client
from tests.terraform.test_saved_queries import QUERIES, sql

NOVEMBER = f"history/suite=blog/month=2026-11/{slug(two_targets().run_id)}.parquet"
MONTHS_END = datetime(2026, 11, 30, 23, 59, tzinfo=NOON.tzinfo)


@pytest.fixture
def bucket():
    calls = []

    def record(params, model, **_):
        calls.append((model.name, params.get("Key") or params.get("Prefix", "")))

    with moto_account():
        s3 = moto_client("s3", region_name=REGION)
        s3.create_bucket(Bucket=BUCKET)
        s3.meta.events.register("provide-client-params.s3", record)
        yield ResultBucket(s3, calls)
        s3.meta.events.unregister("provide-client-params.s3", record)


def job(target="c5.2xlarge", at=NOON, **fields):
    return finished(build_job(target, build_rows(SIZES, seed=1), **fields), at)


def written(run):
    """A run's rows as the table that is written."""
    return pa.Table.from_pylist(history_rows(run, PRICES), schema=SCHEMA)


def test_a_run_has_one_file_per_suite_and_month_and_a_retry_writes_the_same_bytes(bucket):
    run = two_targets()
    bucket.append(run)
    first = bucket.objects("history/")
    store = RunStore(bucket.s3, BUCKET, run.run_id)
    bucket.append(readable_run(store, store.prefix + COLLECTED))
    assert bucket.objects("history/") == first
    assert bucket.called("DeleteObject") == []
    assert bucket.append(two_targets()) == (NOVEMBER,)
    later = job("g5.xlarge", at=MONTHS_END + timedelta(hours=1))
    keys = bucket.append(run_of(job(at=MONTHS_END), later, job(suite="smoke")))
    places = [FileLocation.of(key)[:2] for key in keys]
    assert places == [("blog", "2026-11"), ("blog", "2026-12"), ("smoke", "2026-11")]
    assert sorted(bucket.objects("history/")) == sorted([NOVEMBER, *keys])
    assert bucket.history.suites() == ["blog", "smoke"]
    table = bucket.history.read(["target"], run_ids=[RUN_ID], suites=["blog"])
    assert table["target"].to_pylist() == ["c5.2xlarge"] * 2 + ["g5.xlarge"] * 2
    assert table["month"].to_pylist() == ["2026-11"] * 2 + ["2026-12"] * 2


def test_a_cleared_run_counts_once_in_its_new_month(bucket):
    bucket.append(two_targets(1))  # another run, which stays
    (old,) = bucket.append(run_of(job(at=MONTHS_END)))
    bucket.calls.clear()
    (new,) = bucket.append(run_of(job(at=MONTHS_END + timedelta(days=1))))
    changes = [call for call in bucket.calls if call[0] != "ListObjectsV2"]
    assert changes[-2:] == [("PutObject", new), ("DeleteObject", old)]
    assert len(bucket.objects("history/")) == 2
    assert bucket.history.read([], run_ids=[RUN_ID]).num_rows == 2


def test_a_run_that_release_0_1_collected_is_found_and_is_not_doubled(bucket):
    run, name = run_of(job()), url_safe(RUN_ID)
    bucket.put(f"runs/{name}/{PLAN}", RunPlan(jobs=()).model_dump_json())
    bucket.put(f"runs/{name}/{COLLECTED}", run.model_dump_json())
    store = RunStore(bucket.s3, BUCKET, RUN_ID)
    assert store.prefix == f"runs/{name}/"
    for _ in range(2):
        (key,) = bucket.history.append(run, PRICES, store.name)
        assert FileLocation.of(key).name == name
    assert bucket.history.read([], run_ids=[RUN_ID]).num_rows == 2


def test_a_cleared_run_that_lost_all_its_jobs_has_no_rows(bucket):
    bucket.append(run_of(job()))
    lost = run_of().model_copy(update={"lost": (build_lost("c5.2xlarge", "reclaimed"),)})
    assert bucket.append(lost) == bucket.append(run_of(build_job("c5.2xlarge", []))) == ()
    assert bucket.objects("history/") == {}


def test_only_the_given_columns_and_keys_are_read_and_one_that_was_not_written_is_null(bucket):
    bucket.append(two_targets())
    table = bucket.history.read(["median_seconds", "run_id"])
    assert table.column_names == ["median_seconds", "run_id", "suite", "month"]
    assert table.schema.field("run_id").type == table.schema.field("suite").type == TEXT
    assert set(table["month"].to_pylist()) == {"2026-11"}
    everything = bucket.history.read(ALL_COLUMNS)
    assert everything.column_names == list(ALL_COLUMNS)
    assert everything.select(SCHEMA.names).cast(SCHEMA).equals(written(two_targets()))
    written_by_arrow = pq.read_metadata(BytesIO(bucket.objects()[NOVEMBER])).metadata or {}
    assert b"ARROW:schema" not in written_by_arrow
    older = written(two_targets()).drop_columns(["ami_id", "energy_joules", "multimodal"])
    bucket.put(NOVEMBER, encode(older))
    read = bucket.history.read(["ami_id", "energy_joules", "multimodal", "target"])
    assert [read[name].null_count for name in read.column_names[:4]] == [4, 4, 4, 0]


def test_only_selected_partitions_are_read(bucket):
    runs = (two_targets(), two_targets(40), two_targets(suite="smoke"))
    november, december, smoke = (key for run in runs for key in bucket.append(run))
    for chosen, read in (
        ({}, {november, december, smoke}),
        ({"suites": ["smoke"]}, {smoke}),
        ({"suites": ["training"]}, set()),
        ({"since": date(2026, 12, 1)}, {december}),
        ({"run_ids": [runs[1].run_id]}, {december}),
        ({"run_ids": []}, set()),
    ):
        bucket.calls.clear()
        table = bucket.history.read(["run_id"], **chosen)
        assert set(bucket.called("GetObject")) == read, chosen
        assert table.num_rows == 4 * len(read), chosen


def test_many_files_make_one_table_with_shared_dictionaries(bucket, monkeypatch):
    monkeypatch.setattr("batchmark.history.store.FILES_AT_A_TIME", 2)
    for day in range(5):
        bucket.append(two_targets(day))
    since = bucket.history.read(["recorded_at"], since=date(2026, 11, 23))  # amid a month
    assert {at.day for at in since["recorded_at"].to_pylist()} == {23, 24}
    table = bucket.history.read(["target", "run_id"])
    assert table.num_rows == 20
    assert len(set(table["run_id"].to_pylist())) == 5
    for chunk in table["target"].chunks:
        assert chunk.dictionary.to_pylist() == ["g5.xlarge", "c5.2xlarge"]


def parquet(columns, **options):
    written = BytesIO()
    pq.write_table(pa.table(*columns), written, **options)
    return written.getvalue()


def broken_files(body):
    """By name, what is made of a file of the history, and what never was one."""
    damaged = bytearray(body)
    damaged[len(body) // 8 : len(body) // 4] = bytes(len(body) // 4 - len(body) // 8)
    yield "cut", body[:-100]
    yield "damaged", bytes(damaged)
    yield "empty", b""
    yield "words", b"not Parquet at all"
    yield "foreign", parquet(({"a": [1]},))
    rows = written(two_targets())
    names, columns = rows.column_names, rows.columns

    def with_column(name, values):
        place = names.index(name)
        return parquet(([*columns[:place], values, *columns[place + 1 :]], names))

    yield "nested", with_column("run_id", pa.array([{"run_id": "a"}] * 4))
    yield "list", with_column("run_id", pa.array([["a"]] * 4))
    yield "doubled", parquet(([*columns, rows["run_id"]], [*names, "run_id"]))
    yield "other types", parquet(([pa.nulls(4, pa.duration("s"))] * len(names), names))
    many = [pa.nulls(MOST_ROWS + 1, field.type) for field in SCHEMA]
    yield "long", parquet((many, names))
    grouped = BytesIO()
    with pq.ParquetWriter(grouped, SCHEMA) as writer:
        for _ in range(200):
            writer.write_table(rows.slice(0, 1))
    yield "grouped", grouped.getvalue()
    text = "x" * (MOST_TEXT_BYTES // 1000)
    wordy = [pa.nulls(1001, field.type) for field in SCHEMA]
    wordy[names.index("run_id")] = pa.array([text] * 1001)
    yield "wordy", parquet((wordy, names), compression="zstd")
    for name, value in (
        ("target", None),
        ("cpu_model", None),
        ("actual_device", "tpu"),
        ("parameters", "[1]"),
        ("parameters", "{"),
        ("median_seconds", math.inf),
        ("price_usd_per_hour", 1e300),
        ("relative_spread", math.nan),
        ("recorded_at", datetime(1, 1, 1)),  # noqa: DTZ001
        ("recorded_at", datetime(9999, 12, 31)),  # noqa: DTZ001
    ):
        values = pa.array([value] * 4, SCHEMA.field(name).type)
        yield f"{name} {value}", with_column(name, values)
    yield "no UTF-8", parquet((columns, names)).replace(b"c5.2xlarge", b"c5.\xff\xfflarge")


def test_unreadable_files_are_skipped_and_named(bucket):
    (key,) = bucket.append(two_targets())
    broken = {
        f"history/suite=blog/month=2026-11/{name}.parquet": content
        for name, content in broken_files(bucket.objects()[key])
    }
    broken["history/suite=blog/notes.txt"] = b"words"
    for name, content in broken.items():
        bucket.put(name, content)
    bucket.put("history/suite=blog/", b"")  # consoles make such an object for a folder
    history = bucket.history
    assert history.read(ALL_COLUMNS).num_rows == 4
    assert sorted(history.unreadable) == sorted(broken)


def test_a_file_that_is_larger_than_any_is_not_read(bucket, monkeypatch):
    (key,) = bucket.append(two_targets())
    other = bucket.append(two_targets(1))
    most = max(map(len, bucket.objects().values()))
    monkeypatch.setattr("batchmark.history.store.MOST_BYTES", most)
    bucket.put(key, bytes(most + 1))
    history = bucket.history
    assert history.read(["median_seconds"]).num_rows == len(other) * 4
    assert history.unreadable == [key]


def test_a_column_that_contradicts_the_schema_does_not_end_the_process():
    """In a file's footer the schema comes first; some damage there ends pyarrow."""
    rows = written(two_targets())
    body, place = encode(rows), FileLocation("blog", "2026-11", "damaged")
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    for position in range(footer, footer + 200, 5):
        damaged = bytearray(body)
        damaged[position] = 0
        with suppress(Exception):
            decode(bytes(damaged), place, schema_for(ALL_COLUMNS))


def test_a_file_removed_during_a_read_is_not_an_error(bucket):
    bucket.append(two_targets())
    (other,) = bucket.append(two_targets(1))
    history, events = bucket.history, bucket.s3.meta.events

    def remove_it(**_):
        events.unregister("before-parameter-build.s3.GetObject", remove_it)
        history.objects.remove(other)

    events.register("before-parameter-build.s3.GetObject", remove_it)
    assert history.read(["run_id"], run_ids=[two_targets(1).run_id]).num_rows == 0
    assert history.unreadable == []


def test_only_keys_of_the_history_have_a_location():
    place = FileLocation("blog", "2026-11", "run-1")
    assert FileLocation.of(place.key) == place
    for key in (
        f"{place.key}.tmp",
        f"older/{place.key}",
        place.key.replace("run-1", "more/run-1"),
        place.key.replace("2026-11", "202611"),
    ):
        assert FileLocation.of(key) is None


class TestDuckDb:
    """The files as Athena sees them, by the SQL that DuckDB and Trino share."""

    @pytest.fixture(scope="class")
    @classmethod
    def history(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("bucket")
        for day, slowdown in enumerate((1, 1, 1.2)):
            run = two_targets(day, slowdown)
            for key, body in encode_rows(history_rows(run, PRICES), f"run-{day}").items():
                path = folder / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
        with duckdb.connect() as connection:
            connection.execute(
                f"CREATE VIEW history AS SELECT * FROM read_parquet("  # noqa: S608
                f"'{folder}/history/*/*/*.parquet', hive_partitioning = true,"
                " hive_types = {'suite': VARCHAR, 'month': VARCHAR})"
            )
            yield connection

    def test_the_columns_have_athenas_types_and_the_rows_are_those_of_the_runs(self, history):
        described = history.execute("DESCRIBE history").fetchall()
        types = {name: kind for name, kind, *_ in described}
        assert set(types) == set(ALL_COLUMNS)
        assert (types["recorded_at"], types["run_id"]) == ("TIMESTAMP", "VARCHAR")
        assert (types["flops"], types["multimodal"]) == ("BIGINT", "BOOLEAN")
        asked = "SELECT count(*), count(DISTINCT run_id), min(month), min(recorded_at) FROM history"
        (answer,) = history.execute(asked).fetchall()
        assert answer == (12, 3, "2026-11", NOON.replace(tzinfo=None))

    @pytest.mark.parametrize("query", QUERIES)
    def test_athenas_saved_queries_run_over_it(self, history, query):
        rows = history.execute(sql(query)).fetchall()
        # Two targets at two sizes each, all of them slower in the last run.
        assert len(rows) == (1 if query == "crossover" else 4)
