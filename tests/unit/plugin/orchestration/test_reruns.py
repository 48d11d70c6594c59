"""Which jobs measure a run's rows again, what they may cost, and how they are booked."""

import pytest

from batchmark.analysis.samples import parameters_json
from batchmark.aws.result_bucket import RunStore
from batchmark.core.own_jobs import OwnJobRun
from batchmark.core.run import RunPlan
from batchmark.orchestration.reruns import can_be_repeated, plan_round, reserve
from batchmark.runs.plans.own_job_plan import plan_own_jobs
from batchmark.runs.plans.planning import all_operator_kwargs, plan_jobs
from batchmark.runs.plans.sharing_plan import plan_sharing, sharing_options
from batchmark.runs.spending import run_spending
from tests.builders.changed_series import build_key
from tests.builders.existing_jobs import own_jobs
from tests.builders.installations import configured, own_types, target
from tests.builders.scaling import planned, stack
from tests.builders.spending import build_spending
from tests.stand_ins.bucket import MemoryBucket

NAME = "g5.xlarge"
KEY, OTHER = "costs/2026-11/run.json", "costs/2026-11/other.json"
WORST = 18.11  # 3 fresh jobs x 2 submissions x 3 attempts of an hour at 1.006, rounded up


class Store(RunStore):
    """Of a bucket in memory."""

    def __init__(self):
        self.memory = MemoryBucket("results", "us-east-1")
        super().__init__(self.memory, "results", "run")

    def book(self, key, **fields):
        record = build_spending(key, **fields)
        self.memory.objects[key] = record.model_dump_json(indent=2).encode()


@pytest.fixture
def store():
    return Store()


def reserved(store, *, cap, monthly_cap=None, key=KEY, name=NAME):
    config = configured(targets=own_types(**{name: {}}), monthly_cap_usd=monthly_cap)
    jobs = plan_jobs(config, run_name="run", suite="blog", need_both_devices=False)
    plan = RunPlan(jobs=tuple(jobs), spending_key=key)
    return reserve(store, config, plan, [row(name)], cap)


def row(target, **parameters):
    fields = {"parameters": parameters_json(parameters)} if parameters else {}
    return build_key(target, actual_device="cuda", **fields)


def test_a_row_of_an_array_is_measured_again_by_an_array_of_the_same_plan():
    shared = target("cuda", sharing="time_slicing", max_replicas=5, gpus=0)
    config = configured(targets={"shared": shared, **own_types(**{NAME: {}})})
    asked = {"modes": ["time_slicing"], "replicas": [1, 2, 5], "task": "matmul", "axes": "size=64"}
    jobs = plan_sharing(config, sharing_options(asked), run_name="run", repeats=2)
    rows = [row("shared", mode="time_slicing", replicas=n, form="jobs") for n in (5, 5, 2)]
    fresh = plan_round(1, jobs, [*rows, row(NAME, mode="time_slicing", replicas=2)]).jobs
    assert [(job.target, job.sharing.replicas, job.repeat) for job in fresh] == [
        ("shared", (5,), 3),
        ("shared", (2,), 3),
        (NAME, (1, 2, 5), 3),
    ]
    assert fresh[0].result_prefix == "s3://results/raw/run/shared/sharing/of-5/3/"
    assert fresh[0].sharing in [job.sharing for job in jobs if job.sharing.separate_replicas == 5]
    turns = [each["after"] for each in all_operator_kwargs(config, "run", fresh)]
    assert turns == [None, 0, None]
    assert [job.repeat for job in plan_round(2, jobs, rows[:1]).jobs] == [4, 5]


def test_a_row_of_several_nodes_is_measured_again_by_the_job_of_as_many_and_of_its_settings():
    study = [{"learning_rate": 0.2}, {"learning_rate": 0.3, "epochs": 45}]
    nodes = stack(gpus=3)
    jobs = planned(nodes, node_counts=[1, 2, 4], study=study)
    *_, second, third = [job.scaling.settings.learning_rate for job in jobs]
    assert second == 0.2 * 4 * 3 * 64 / 256
    for settings, found in (
        ({"nodes": 2}, (2, 0)),
        ({"nodes": 4}, (4, 0)),
        ({"nodes": 4, "learning_rate": second}, (4, 1)),
        ({"nodes": 4, "learning_rate": third, "epochs": 45}, (4, 2)),
    ):
        (fresh,) = plan_round(1, jobs, [row(nodes.target, devices=3, batch=64, **settings)]).jobs
        assert (fresh.nodes, fresh.scaling.variant) == found
    assert fresh.result_prefix.endswith("/scaling/on-4/variant-2/2/")


def test_no_fresh_job_reads_the_files_cold_nor_can_one_ask_for_a_cold_instance():
    nodes = stack()
    jobs = planned(nodes, node_counts=[1, 2])
    assert [job.scaling.passes for job in jobs] == [("cold", "warm"), ("warm",)]
    warm, cold = (
        row(nodes.target, nodes=1, devices=8, **{"pass": name}) for name in ("warm", "cold")
    )
    (fresh,) = plan_round(1, jobs, [warm]).jobs
    assert fresh.scaling.passes == ("warm",)
    assert fresh.scaling.model_copy(update={"passes": ("cold", "warm")}) == jobs[0].scaling
    assert [can_be_repeated(one) for one in (warm, cold, row(NAME))] == [True, False, True]
    rows = [own_row(size=256, **start) for start in ({"start": "cold"}, {"start": "warm"}, {})]
    assert [can_be_repeated(one) for one in rows] == [False, True, True]


@pytest.mark.parametrize(("files", "usd"), [(False, "76.86"), (True, "82.11")])
def test_fresh_jobs_of_nodes_count_the_file_system_for_their_time(store, files, usd):
    nodes = stack()
    config = nodes.joined_to(configured(monthly_cap_usd=1e6))
    store.book(KEY, finished=True)
    plan = RunPlan(jobs=tuple(planned(nodes)), spending_key=KEY)
    layer = {"file_system": nodes.file_system if files else None}
    reason = reserve(store, config, plan.model_copy(update=layer), [row(nodes.target)], 1)
    assert reason.startswith(f"3 fresh jobs could cost {usd} USD")


@pytest.mark.parametrize("key", [KEY, None])
def test_the_runs_cap_holds_for_the_run_with_its_fresh_jobs(store, key):
    spent = 2.5 if key else 0.0
    store.book(KEY, finished=True, job_usd={"first": 2.5})
    before = dict(store.memory.objects)
    refused = reserved(store, cap=WORST + spent - 0.01, key=key)
    assert refused == "3 fresh jobs could cost 18.11 USD, but max_cost_usd leaves only 18.10 USD"
    assert store.memory.objects == before
    assert reserved(store, cap=WORST + spent, key=key) is None
    assert reserved(store, cap=None, key=key) is None


@pytest.mark.parametrize("booked", [{"finished": True}, {"reserved_usd": 3.0}])
def test_a_booking_beside_anothers_gives_way_to_what_was_there(store, booked):
    store.book(KEY, job_usd={"first": 2.5}, **booked)
    before = store.read(KEY)

    def book_the_other(operation, _):
        if operation == "PutObject":
            store.book(OTHER, reserved_usd=10.0)

    store.memory.on_call = book_the_other
    assert "exceeds the monthly_cap_usd of $30" in reserved(store, cap=None, monthly_cap=30)
    assert store.read(KEY) == before


@pytest.mark.parametrize("key", [KEY, None])
def test_without_a_price_fresh_jobs_run_under_no_cap_only(store, key):
    store.book(KEY)
    refused = reserved(store, cap=1e6, key=key, name="g9.huge")
    assert "there is no On-Demand price for g9.huge" in refused
    assert reserved(store, cap=None, key=key, name="g9.huge") is None
    assert run_spending(store, KEY).reserved_usd == (None if key else 0.0)


def test_what_a_first_try_booked_counts_once_beside_the_other_runs_and_is_needed(store):
    missing = "spending record is missing or invalid (costs/2026-11/run.json)"
    assert missing in reserved(store, cap=None)
    store.book(KEY, finished=True, job_usd={"first": 2.5})
    for _ in range(2):
        assert reserved(store, cap=WORST + 2.5, monthly_cap=WORST + 2.5) is None
        booked = run_spending(store, KEY)
        assert (booked.finished, booked.reserved_usd) == (False, WORST)
        assert booked.job_usd == {"first": 2.5}
    store.book(KEY, finished=True, job_usd={"first": 2.5})
    store.book(OTHER, reserved_usd=10.0)
    before = dict(store.memory.objects)
    assert "exceeds the monthly_cap_usd of $30" in reserved(store, cap=None, monthly_cap=30)
    assert store.memory.objects == before
    assert reserved(store, cap=None, monthly_cap=30.61) is None


def own_row(**parameters):
    fields = {"parameters": parameters_json(parameters), "dtype": "none"}
    return build_key("g5.xlarge", "thumbnails", suite="job-thumbnails", **fields)


def own_planned(repeats, **changes):
    wanted = OwnJobRun(job="thumbnails", repeats=repeats)
    return plan_own_jobs(configured(), own_jobs(**changes), wanted, run_name="run")


def test_a_fresh_own_job_is_of_the_rows_size_if_it_has_one():
    jobs = own_planned(2)
    plan = plan_round(1, jobs, [own_row(size=256, start="warm")])
    assert {(job.target, job.own_job.size) for job in plan.jobs} == {("g5.xlarge", 256)}
    (job, *_) = plan.jobs
    assert (job.repeat, job.purpose) == (4, "confirmation")
    assert job.result_prefix.endswith("/g5.xlarge/job-thumbnails-size-256/4/")
    (kwargs, *_) = all_operator_kwargs(configured(), "run", plan.jobs)
    assert kwargs["parameters"]["size"] == "256"
    both = plan_round(1, jobs, [own_row(size=256), own_row(size=64, metric="rate")])
    assert {job.own_job.size for job in both.jobs} == {64, 256}
    jobs = own_planned(1, axis=None, command=["convert"])
    (job, *_) = plan_round(1, jobs, [own_row(start="warm")]).jobs
    assert job.own_job.size is None
