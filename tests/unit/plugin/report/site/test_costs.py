"""What runs have cost, by target."""

from batchmark.report.site.costs import Month


def test_targets_stand_in_their_one_order():
    found = Month(None, {"g5.12xlarge": 1.0, "unknown target": None, "g5.2xlarge": 0.0})
    assert found.targets == [
        ("g5.2xlarge", "no\N{NO-BREAK SPACE}dollars"),
        ("g5.12xlarge", "$1.00"),
        ("unknown target", "not known"),
    ]
