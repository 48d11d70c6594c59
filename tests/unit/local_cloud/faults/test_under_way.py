"""Which fault under way strikes what asks for it."""

import pytest

from local_cloud.faults.kinds import FAULT, FileSystemDeletionRefused, UnstartedNode
from local_cloud.faults.under_way import strike
from local_cloud.gaps.service_quotas import NAMES, quota


def test_a_fault_strikes_so_often_and_so_many(begin):
    active = begin("file_system_deletion_refused", file_system="fs-1*", times=2)
    assert strike(UnstartedNode) is None

    def struck(file_system_id):
        return strike(FileSystemDeletionRefused, lambda fault: fault.covers(file_system_id))

    assert struck("fs-2") is None
    assert [struck("fs-10") for _ in range(3)] == [active.fault, active.fault, None]
    assert active.shown()["strikes"] == 2


@pytest.mark.parametrize(
    ("fault", "covered", "others"),
    [
        (
            {"kind": "unstarted_node", "job_name": "job-*", "node": 2},
            ("job-1", 2),
            [("job-1", 1), ("other", 2)],
        ),
        (
            {"kind": "spot_interruption", "job_name": "job-*", "compute_environment": "spot"},
            ("job-1", "spot"),
            [("job-1", "on-demand"), ("other", "spot")],
        ),
        ({"kind": "spot_interruption"}, ("any", "any"), []),
        (
            {"kind": "invalid_environment", "compute_environment": "spot*"},
            ("spot-1",),
            [("other",)],
        ),
    ],
)
def test_what_is_covered(fault, covered, others):
    covers = FAULT.validate_python(fault).covers
    assert covers(*covered)
    assert not any(covers(*other) for other in others)


def test_quotas_are_covered_by_code(begin):
    begin("vcpu_quota", code="L-DB*")
    found = {code: quota(code, "us-east-1", "123456789012")["Value"] for code in NAMES}
    assert [code for code, value in found.items() if value == 0] == ["L-DB2E81BA"]
