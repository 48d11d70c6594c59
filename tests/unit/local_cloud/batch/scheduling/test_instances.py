"""What runs beside what: in a pool, and on the one instance of a compute environment."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from local_cloud.batch.jobs.resources import Requirements
from local_cloud.batch.running import environment_variables
from local_cloud.batch.running.environment_variables import cuda, gpus
from local_cloud.batch.scheduling.instances import Machine, only_instance
from local_cloud.batch.scheduling.pool import Pool, Reservation
from tests.stand_ins.local_batch import local_batch


@pytest.fixture
def pool():
    return Pool(vcpus=4, memory_mib=1000, gpus=2)


def take(pool, *, vcpus=1, memory_mib=1, gpus=0, reserved=None):
    return pool.take(Requirements(vcpus, memory_mib, gpus), reserved or Reservation())


@pytest.mark.parametrize(
    ("begin", "gpu_ids"),
    [
        (lambda pool: take(pool, vcpus=3, memory_mib=600, gpus=1), ("0",)),
        # After a restart, a job gets what it held as far as it exists.
        (lambda pool: pool.allocate(Requirements(3, 600, 2), ("1", "5")), ("1",)),
    ],
)
def test_what_was_taken_is_not_free_until_it_is_given_back(pool, begin, gpu_ids):
    allocation = begin(pool)
    assert allocation.gpu_ids == gpu_ids
    assert take(pool, vcpus=2) is None
    assert take(pool, memory_mib=500) is None
    assert take(pool, gpus=2) is None
    pool.give_back(allocation)
    assert take(pool, vcpus=4, memory_mib=1000, gpus=2).gpu_ids == ("0", "1")


def test_fractions_of_a_vcpu(pool):
    assert all(take(pool, vcpus=0.25) for _ in range(16))
    assert take(pool, vcpus=0.25) is None


def test_a_job_that_waits_for_vcpus_keeps_smaller_ones_from_passing_it(pool):
    take(pool, vcpus=3)
    reserved = Reservation()
    assert take(pool, vcpus=2, reserved=reserved) is None
    assert reserved.everything()
    assert take(pool, vcpus=1, reserved=reserved) is None


def test_a_job_that_waits_for_a_gpu_lets_cpu_jobs_pass(pool):
    take(pool, gpus=1)
    reserved = Reservation()
    assert take(pool, gpus=2, reserved=reserved) is None
    assert take(pool, gpus=1, reserved=reserved) is None
    assert take(pool, reserved=reserved) is not None


def test_gpus_come_back_in_order():
    pool = Pool(vcpus=99, memory_mib=99, gpus=12)
    allocations = [take(pool, gpus=1) for _ in range(12)]
    for allocation in reversed(allocations):
        pool.give_back(allocation)
    assert pool.free_gpu_ids == [str(index) for index in range(12)]


REPLICA = Requirements(1, 1000)


def environment(name="shared", **changes):
    """One g4dn.2xlarge: 8 vCPUs, 32 GiB, one GPU."""
    resources = {
        "type": "EC2",
        "allocationStrategy": "BEST_FIT",
        "instanceTypes": ["g4dn.2xlarge"],
        "maxvCpus": 8,
    }
    return SimpleNamespace(name=name, arn=f"arn/{name}", compute_resources=resources | changes)


@pytest.fixture
def machine():
    """A laptop's pool."""
    return Machine(Pool(vcpus=2, memory_mib=8192, gpus=1))


def place(machine, needed=REPLICA, where=None, reserved=None):
    return machine.take(where or environment(), needed, reserved or Reservation())


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        *(({}, True), ({"maxvCpus": 15}, True), ({"allocationStrategy": None}, True)),
        ({"type": "SPOT"}, False),
        ({"allocationStrategy": "BEST_FIT_PROGRESSIVE"}, False),
        ({"instanceTypes": ["g4dn.2xlarge", "g5.2xlarge"]}, False),
        ({"instanceTypes": ["optimal"]}, False),
        *(({"maxvCpus": 16}, False), ({"maxvCpus": 7}, False)),
    ],
)
def test_environments_of_one_instance(changes, is_one):
    size = Requirements(8, 32768, 1)
    assert only_instance(environment(**changes)) == (size if is_one else None)


def test_as_many_jobs_as_the_instance_has_vcpus_share_its_gpu(machine):
    placed = [place(machine) for _ in range(8)]
    assert {(each.gpu_ids, each.shared_gpu_ids) for each in placed} == {((), ("0",))}
    assert place(machine) is None
    machine.give_back(placed.pop())
    placed.append(place(machine))
    for each in placed:
        machine.give_back(each)
    pool = machine.pool
    assert (pool.free_vcpus, pool.free_memory_mib, pool.free_gpu_ids) == (2, 8192, ["0"])


def test_nothing_else_runs_beside_them_and_what_runs_already_is_waited_for(machine):
    first, second = place(machine), place(machine)
    plain = environment("plain", allocationStrategy="BEST_FIT_PROGRESSIVE")
    other = environment("other")
    for placed in (first, second):
        assert place(machine, where=plain) is None
        assert place(machine, where=other) is None
        machine.give_back(placed)
    running, reserved = place(machine, where=plain), Reservation()
    assert place(machine, reserved=reserved) is None
    assert place(machine, where=plain, reserved=reserved) is None
    machine.give_back(running)
    assert place(machine) is not None


def test_memory_is_the_machines(machine):
    placed = [place(machine, Requirements(1, 3000)) for _ in range(2)]
    assert all(placed)
    assert place(machine, Requirements(1, 3000)) is None
    assert place(machine, Requirements(1, 2000)) is not None


def test_a_job_that_waits_for_the_instance_keeps_smaller_ones_from_passing_it(machine):
    place(machine, Requirements(6, 1))
    reserved = Reservation()
    assert place(machine, Requirements(4, 1), reserved=reserved) is None
    assert place(machine, Requirements(1, 1), reserved=reserved) is None


def test_a_job_that_requires_the_gpu_gets_it_alone(machine):
    first = place(machine, Requirements(1, 1, 1))
    assert first.gpu_ids == ("0",)
    assert place(machine, Requirements(1, 1, 1)) is None
    machine.give_back(first)
    assert place(machine, Requirements(1, 1, 1)).gpu_ids == ("0",)


def test_what_can_ever_fit(machine):
    assert machine.can_ever_hold(environment(), Requirements(8, 8192))
    assert not machine.can_ever_hold(environment(), Requirements(9, 1))
    assert not machine.can_ever_hold(environment(), Requirements(1, 8193))
    several = environment(maxvCpus=16)
    assert machine.can_ever_hold(several, Requirements(2, 8192, 1))
    assert not machine.can_ever_hold(several, Requirements(2.5, 1))
    assert not machine.can_ever_hold(several, Requirements(1, 1, 2))
    without_gpu = Machine(Pool(vcpus=64, memory_mib=8192, gpus=0))
    assert not without_gpu.can_ever_hold(environment(), REPLICA)


def test_after_a_restart_jobs_are_on_one_instance_again(machine):
    again = [machine.take_again(environment(), REPLICA, ("0",)) for _ in range(3)]
    assert {each.shared_gpu_ids for each in again} == {("0",)}
    assert [place(machine) is not None for _ in range(6)] == [True] * 5 + [False]


REPLICAS = 5


def add_queue(batch):
    """A queue whose environment is one g4dn.2xlarge: 8 vCPUs and a GPU."""
    one = {"instanceTypes": ["g4dn.2xlarge"], "maxvCpus": 8, "allocationStrategy": "BEST_FIT"}
    batch.environment("shared", **one)
    batch.queue(environment="shared")


@pytest.fixture
def batch():
    """A laptop: two vCPUs and one declared GPU."""
    with local_batch(vcpus=2, gpus=1) as made:
        add_queue(made)
        yield made


def define(batch, visible="all", **needs):
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}]
    batch.define(container={"environment": environment}, needs={"MEMORY": 512} | needs)


def test_all_children_run_at_once_and_see_the_same_gpu(batch):
    define(batch)
    parent = batch.submit(arrayProperties={"size": REPLICAS})
    batch.wait_for_starts(REPLICAS)
    found = [environment_variables.for_node(one, {}) for one in batch.containers.launches]
    assert {each["NVIDIA_VISIBLE_DEVICES"] for each in found} == {"0"}
    assert {each["AWS_BATCH_JOB_ARRAY_INDEX"] for each in found} == set("01234")
    assert {each["AWS_BATCH_JOB_ARRAY_SIZE"] for each in found} == {"5"}
    hosts = {launch.record.container_instance_arn for launch in batch.containers.launches}
    assert len(hosts) == 1
    assert batch.finish(parent)["status"] == "SUCCEEDED"


def test_a_container_that_names_no_gpu_sees_none(batch):
    define(batch, visible="void")
    batch.submit()
    batch.wait_for_starts(1)
    (launch,) = batch.containers.launches
    assert launch.gpu_ids == ()


def test_a_job_that_does_not_fit_the_instance_never_starts(batch):
    define(batch, GPU=2)
    reason = batch.describe(batch.submit())["statusReason"]
    assert reason.startswith("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
    assert reason.endswith("The only instance in shared has 8 vCPUs, 32768 MiB and 1 GPUs.")


def test_a_machine_without_gpus_has_no_such_instance():
    with local_batch(vcpus=2) as batch:
        add_queue(batch)
        define(batch)
        assert "restart it with at least --gpus 1" in batch.describe(batch.submit())["statusReason"]


@pytest.fixture
def devices(monkeypatch):
    """The device files there are."""
    present = set()
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in present)
    return present


def test_cuda_gets_declared_gpus_only_if_all_exist_and_none_unless_asked_for(devices):
    def visible(*gpu_ids, sees_all=False):
        return cuda(gpu_ids, sees_all=sees_all).get("CUDA_VISIBLE_DEVICES")

    assert gpus(()) == {}
    assert gpus(("0", "1")) == {"NVIDIA_VISIBLE_DEVICES": "0,1"}
    assert visible("0", "1") is None
    devices.add("/dev/nvidia0")
    assert visible("0", "1") is None
    devices.add("/dev/nvidia1")
    assert visible("0", "1") == "0,1"
    assert visible() == ""
    assert visible(sees_all=True) is None
