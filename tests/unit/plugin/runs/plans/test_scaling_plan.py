"""What a multi-node run plans, what its jobs are told, and what they can cost at most."""

import shlex
from datetime import UTC, datetime

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from batchmark.core.clusters import file_system_cost
from batchmark.core.errors import ConfigError, PlanError
from batchmark.core.prices import load_prices
from batchmark.runs.budget import refusals, worst_case
from batchmark.runs.plans.planning import all_operator_kwargs, operator_kwargs
from batchmark.runs.plans.scaling_plan import needs_files, skipped_size_notes
from tests.builders.installations import configured
from tests.builders.runs import PRICES
from tests.builders.scaling import on_cpus, planned, stack, wanted

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ONE_GPU = stack(instance_type="g5.xlarge", gpus=1)
P4D = PRICES.model_copy(update={"on_demand": {"p4d.24xlarge": 32.7726}})


def worst(nodes, prices=P4D, file_system=None, **changes):
    config = nodes.joined_to(configured(region=nodes.region))
    return worst_case(config, planned(nodes, **changes), prices, NOW, file_system)


def test_each_number_of_nodes_is_a_job_the_fewest_first_and_alone_reads_files_cold():
    nodes = stack()
    jobs = planned(nodes, node_counts=[4, 1, 2, 4])
    assert [job.nodes for job in jobs] == [1, 2, 4]
    assert [job.name for job in jobs] == [f"scaling-on-{nodes}-1" for nodes in (1, 2, 4)]
    assert jobs[1].result_prefix == "s3://results/raw/run/p4d.24xlarge-nodes/scaling/on-2/1/"
    assert {(job.target, job.dtype) for job in jobs} == {("p4d.24xlarge-nodes", "bfloat16")}
    assert {job.scaling.devices for job in jobs} == {8}
    # None is limited by those before: the DAG's mapped task submits each when they have ended.
    found = all_operator_kwargs(nodes.joined_to(configured()), "run", jobs)
    assert {kwargs["longest_seconds"] for kwargs in found} == {6 * 3600 + 3600}
    jobs = planned(on_cpus())
    assert {(job.device, job.scaling.devices, job.dtype) for job in jobs} == {("cpu", 1, "float32")}
    (job,) = planned(on_cpus(), node_counts=[2], devices=4)
    assert job.scaling.devices == 4
    jobs = planned(node_counts=[1, 2], repeats=2, study=[{"learning_rate": 0.2}])
    assert [job.scaling.passes for job in jobs] == [("cold", "warm"), *5 * [("warm",)]]
    assert needs_files(jobs)
    assert not needs_files(planned(data=["synthetic"]))


def test_strong_scaling_keeps_the_images_of_all_devices_and_names_numbers_without_an_equal_share():
    batches = {job.nodes: job.scaling.batches for job in planned(node_counts=[1, 2, 4, 16])}
    assert batches == {1: (64,), 2: (64, 32), 4: (64, 16), 16: (64, 4)}
    for nodes, (_, *strong) in batches.items():
        assert all(nodes * 8 * batch == 8 * 64 for batch in strong)
    assert {job.scaling.batches for job in planned(strong_scaling=False)} == {(64,)}
    asked = wanted(node_counts=[1, 3, 20, 4], batch=8)
    jobs = planned(node_counts=[1, 3, 20, 4], batch=8)
    batches = {job.nodes: job.scaling.batches for job in jobs}
    assert batches == {1: (8,), 3: (8,), 4: (8, 2), 20: (8,)}
    told = [line.split(" among ")[1].split(",")[0] for line in skipped_size_notes(asked, jobs)]
    assert told == ["3 nodes x 8 devices", "20 nodes x 8 devices"]
    assert skipped_size_notes(asked.model_copy(update={"strong_scaling": False}), jobs) == []


def test_the_learning_rate_grows_with_a_steps_images_and_a_variant_is_a_job_of_its_own():
    rates = {job.nodes: job.scaling.settings.learning_rate for job in planned(batch=32)}
    assert rates == {1: 0.1, 2: 0.2, 4: 0.4}  # 8 devices x 32 images are 256
    study = [{"learning_rate": 0.05}, {"epochs": 45, "momentum": 0.8}]
    *_, own, first, second = planned(study=study, batch=32)
    assert (own.nodes, first.nodes, second.nodes) == (4, 4, 4)
    assert [job.scaling.settings.learning_rate for job in (own, first, second)] == [0.4, 0.2, 0.4]
    assert (second.scaling.settings.epochs, own.scaling.settings.epochs) == (45, 90)
    assert second.scaling.varied == ("momentum", "epochs")
    assert first.name == "scaling-on-4-variant-1-1"
    assert first.result_prefix.endswith("/scaling/on-4/variant-1/1/")
    assert (first.scaling.batches, first.scaling.all_reduce_mib) == ((32,), ())
    assert len({job.result_prefix for job in planned(study=study, repeats=2)}) == 10


def test_a_job_is_told_by_overrides_of_all_nodes_that_batch_accepts():
    nodes = stack()
    *_, job = planned(nodes, study=[{"learning_rate": 0.2}], node_counts=[2])
    kwargs = operator_kwargs(nodes.joined_to(configured()), "run", job)
    overrides = kwargs["node_overrides"]
    assert overrides["numNodes"] == 2
    (range_,) = overrides["nodePropertyOverrides"]
    assert range_["targetNodes"] == "0:"
    ((name, value),) = [each.values() for each in range_["containerOverrides"]["environment"]]
    assert name == "BATCHMARK_OPTIONS"
    assert shlex.split(value) == [
        *("--image", "224", "--steps", "50", "--data", "synthetic,files", "--all-reduce-mib", ""),
        *("--devices", "8", "--batches", "64", "--passes", "warm"),
        *("--learning-rate", "0.8", "--momentum", "0.9", "--weight-decay", "5e-05"),
        *("--epochs", "90", "--warmup-epochs", "10", "--images-per-epoch", "1281167"),
        *("--varied", "learning_rate"),
    ]
    assert "container_overrides" not in kwargs
    assert kwargs["parameters"]["dtype"] == "bfloat16"
    assert (kwargs["job_queue"], kwargs["on_demand_queue"]) == ("arn:queue-nodes", None)
    assert (kwargs["retry_strategy"]["attempts"], kwargs["submit_job_timeout"]) == (1, 3600)
    shape = get_session().get_service_model("batch").shape_for("NodeOverrides")
    validate_parameters(overrides, shape)


def test_20_nodes_cost_20_instances_also_while_they_wait_for_each_other():
    nodes = stack()
    seen = worst(nodes, node_counts=[20])
    (target,) = seen.targets
    assert target.idle_seconds == 20 * (3600 + 600)
    # At the price that p4d had until 2025: $655.452 an hour, and 70 minutes idle; rounded up.
    assert seen.usd == 1420.15
    today = worst(nodes, load_prices(), node_counts=[20])
    assert today.usd == 951.5
    (refusal,) = refusals(seen, max_cost_usd=1420)
    assert "× 3600 s + 84,000 s idle at 32.7726 USD per hour" in refusal
    seen = worst(stack(), node_counts=[1, 2, 4])
    (target,) = seen.targets
    assert (target.jobs, target.instances) == (3, 7)
    assert target.idle_seconds == 7 * 600 + 6 * 3600  # one node waits for no other
    assert seen.usd == 464.28  # 7 hours, and 7 h 10 min idle
    (refusal,) = refusals(seen, max_cost_usd=200)
    assert "p4d.24xlarge-nodes: $464.28 (nodes 7 in 3 jobs × submissions 1 × attempts 1" in refusal
    assert "Use fewer node counts" in refusal
    assert seen.usd_of_job("p4d.24xlarge-nodes", 4) == pytest.approx(4 / 7 * 464.28)
    assert seen.usd_of_job("another", 4) is None


def test_the_file_system_counts_for_as_long_as_the_run_can_take_and_needs_a_price():
    nodes = stack()
    seen = worst(nodes, node_counts=[1, 2], file_system=nodes.file_system)
    layer = seen.file_system
    assert layer.seconds == 3600 + 3000 + 2 * (6 * 3600 + 3600)
    assert layer.usd == 3.96  # 1200 GB x 0.14 x 57000 s of February's 2419200, rounded up
    assert seen.usd == pytest.approx(180.25 + 3.96)
    assert seen.cents == 18421
    (refusal,) = refusals(seen, max_cost_usd=100)
    assert "file system: $3.96 (SCRATCH_2, 1,200 GiB for 57,000 s at 0.14 USD per GB" in refusal
    nodes = stack(region="eu-west-1")
    prices = P4D.model_copy(update={"region": nodes.region})
    seen = worst(nodes, prices, file_system=nodes.file_system)
    assert seen.usd is None
    (refusal,) = refusals(seen, max_cost_usd=10_000)
    assert "there is no price for a SCRATCH_2 file system in eu-west-1" in refusal
    assert refusals(seen, max_cost_usd=None) == ()


@pytest.mark.parametrize(
    ("kind", "throughput", "usd"),
    [
        ("SCRATCH_2", None, 0.14),
        ("PERSISTENT_2", 125, 0.145),
        ("PERSISTENT_2", 1000, 0.6),
        ("PERSISTENT_1", 50, 0.14),
        ("PERSISTENT_2", 7, None),
    ],
)
def test_storage_has_a_price_by_type_and_throughput(kind, throughput, usd):
    changes = {"deployment_type": kind, "throughput": throughput}
    settings = stack().file_system.model_copy(update=changes)
    assert file_system_cost.usd_per_gb_month(settings, "us-east-1") == usd


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "other"}, "belongs to installation 'other' in us-east-1, but this Airflow"),
        ({"region": "eu-west-1"}, "belongs to installation 'batchmark' in eu-west-1"),
        ({"target": "g5.xlarge"}, "target 'g5.xlarge' has the same name as a Batch target: rename"),
    ],
)
def test_another_installations_stack_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        stack(**changes).joined_to(configured())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_counts": [1, 21]}, "21, but the stack is limited to 20 nodes: use fewer"),
        ({"devices": 9}, "devices is 9, but p4d.24xlarge has 8 GPUs: use at most 8"),
        ({"nodes": ONE_GPU, "devices": 2}, r"devices is 2, but g5\.xlarge has 1 GPU: use at most"),
        ({"nodes": on_cpus(), "devices": 9}, r"devices is 9, but c5\.2xlarge has 8 vCPUs"),
        ({"batch": 2, "image": 32, "node_counts": [1, 2]}, "includes 1, which leaves nothing"),
        ({"repeats": 0}, "repeats must be a whole number from 1 to 20, got 0"),
        ({"epochs": 5}, "warmup_epochs is 10, but epochs is 5: the warm-up"),
        ({"study": [{}]}, "object 1 in study is {}: specify the settings to change"),
        (
            {"study": [{"learning_rate": 0.2}, {"learning-rate": 1}]},
            r"object 2 in study has an unknown setting 'learning-rate' \(did you mean learning",
        ),
        ({"study": [{"epochs": 1.5}]}, "object 1 in study: epochs expects whole numbers, got 1.5"),
    ],
)
def test_what_can_not_be_had_is_refused_with_the_value_and_the_fix(changes, message):
    with pytest.raises(PlanError, match=message):
        planned(**changes)
