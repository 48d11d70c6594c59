import pytest

from local_cloud.batch.jobs.resources import Requirements
from local_cloud.batch.scheduling.pool import Pool, Reservation


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
