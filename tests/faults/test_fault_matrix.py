"""Fault by fault: it ends as it must, and nothing leaks, is lost or doubled."""

import pytest

from tests.faults.catalogue import FAULTS
from tests.faults.outcome import NONE_BROKEN

pytestmark = pytest.mark.timeout(2400)

CASES = [
    pytest.param(
        number,
        fault,
        point,
        id=f"{fault.name} {point}".strip().replace(" ", "-"),
        marks=[] if fault.quick else [pytest.mark.full_matrix],
    )
    for number, fault in enumerate(FAULTS)
    for point in fault.expected
]


@pytest.mark.parametrize(("number", "fault", "point"), CASES)
def test_fault(number, fault, point, results, record_property):
    expected, result = fault.expected[point], results[fault.name, point]
    ok = result.seen == expected and result.invariants == NONE_BROKEN
    line = (fault.name, point, str(expected), str(result.seen), f"{result.seconds:.0f}")
    record_property(
        "case", (number, *line, str(result.invariants or "-"), "ok" if ok else "NOT OK")
    )
    assert result.seen == expected, result.log
    assert result.invariants == NONE_BROKEN
