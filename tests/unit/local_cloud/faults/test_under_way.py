"""Which fault under way strikes what asks for it."""

import pytest

from local_cloud.faults.kinds import (
    FAULT,
    FileSystemDeletionRefused,
    InvalidEnvironment,
    UnstartedNode,
)
from local_cloud.faults.under_way import UNDER_WAY, Active, active_faults, strike
from local_cloud.gaps.service_quotas import NAMES, quota


@pytest.fixture
def begin():
    def begun(kind, **fields):
        fault = FAULT.validate_python({"kind": kind, **fields})
        active = UNDER_WAY[str(len(UNDER_WAY))] = Active(str(len(UNDER_WAY)), fault)
        return active

    yield begun
    UNDER_WAY.clear()


def test_a_fault_strikes_so_often_and_so_many(begin):
    active = begin("file_system_deletion_refused", file_system="fs-1*", times=2)
    assert strike(UnstartedNode) is None

    def struck(file_system_id):
        return strike(FileSystemDeletionRefused, lambda fault: fault.covers(file_system_id))

    assert struck("fs-2") is None
    assert [struck("fs-10") for _ in range(3)] == [active.fault, active.fault, None]
    assert active.shown()["strikes"] == 2


@pytest.mark.parametrize(
    ("job_name", "node", "covered"), [("job-1", 2, True), ("job-1", 1, False), ("other", 2, False)]
)
def test_one_node_of_jobs_by_name_is_covered(begin, job_name, node, covered):
    begin("unstarted_node", job_name="job-*", node=2)
    found = strike(UnstartedNode, lambda fault: fault.covers(job_name, node))
    assert (found is not None) == covered


def test_environments_are_covered_by_name(begin):
    begin("invalid_environment", compute_environment="spot*")
    ((_, fault),) = active_faults(InvalidEnvironment)
    assert [fault.covers(name) for name in ("spot-1", "other")] == [True, False]


def test_quotas_are_covered_by_code(begin):
    begin("vcpu_quota", code="L-DB*")
    found = {code: quota(code, "us-east-1", "123456789012")["Value"] for code in NAMES}
    assert [code for code, value in found.items() if value == 0] == ["L-DB2E81BA"]
