"""The benchmark of watching: which calls it counts, and when its claims are missed."""

import io
import json

import pytest
from rich.console import Console

from benchmarks.orchestration.watching import (
    OURS,
    PROVIDERS,
    Watched,
    describe_calls,
    missed_claims,
    spread,
    table,
)

INTERVAL = 10


def results(*, our_calls=50, our_late=20.0):
    jobs = [f"job-{number}" for number in range(100)]
    ours = dict.fromkeys(jobs, 3.0) | {jobs[7]: our_late}
    return {
        OURS: Watched(our_calls, ours, wall_seconds=61, cpu_seconds=1.5),
        PROVIDERS: Watched(1000, dict.fromkeys(jobs, 99.0), wall_seconds=70, cpu_seconds=30),
    }


def test_only_one_principals_describe_calls_count_and_refused_ones_too():
    calls = [
        {"access_key_id": OURS, "operation": "DescribeJobs", "status": 200},
        {"access_key_id": OURS, "operation": "DescribeJobs", "status": 429},
        {"access_key_id": OURS, "operation": "GetLogEvents", "status": 200},
        {"access_key_id": PROVIDERS, "operation": "DescribeJobs", "status": 200},
        {"access_key_id": None, "operation": None, "status": 404},
    ]
    lines = [json.dumps(call) for call in calls]
    assert (describe_calls(lines, OURS), describe_calls(lines, PROVIDERS)) == (2, 1)


def test_claims_are_kept_at_their_limits():
    assert missed_claims(results(), INTERVAL) == []


def test_the_claims_name_what_was_seen():
    assert missed_claims(results(our_calls=51, our_late=20.1), INTERVAL) == [
        "calls a job are 0.051 of the provider's, over 0.050",
        "1 ends were seen later than 20 s, the latest after 20.1 s",
    ]


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_lengths_are_spread_over_the_whole_range(count):
    lengths = spread(count, 90, 150)
    assert len(lengths) == count
    assert lengths == sorted(lengths)
    assert lengths[0] == 90
    assert max(lengths) < 150


def test_the_table_has_both():
    console = Console(file=io.StringIO(), width=120)
    console.print(table(results(), INTERVAL))
    text = console.file.getvalue()
    assert "100 jobs in one process, asking every 10 s" in text
    for cell in ("0.500", "10.000", "3.0 s", "99.0 s", "1.5 s"):
        assert cell in text
