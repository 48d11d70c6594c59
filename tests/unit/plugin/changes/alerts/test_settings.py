"""The variable batchmark_alerts: what it may say, and what it is told when it can't be used."""

import json

import pytest

from batchmark.changes.alerts.settings import AlertSettings, parse_settings
from batchmark.core.errors import AlertError
from tests.builders.alerts import change, moved, point, series, some_series

# As an earlier release took them.
NIGHT = [{"timezone": "Europe/Berlin", "start": "22:00", "end": "07:30"}]


def told(*points, **settings):
    found = parse_settings(json.dumps(settings)).worth_telling(change(*points))
    return found and len(found.points)


def by(share, **fields):
    return point(before=1.0, after=1 + share, **fields)


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_without_the_variable_the_defaults_hold(text):
    assert parse_settings(text) == AlertSettings()


def test_quiet_hours_of_an_earlier_release_lose_no_alert_and_are_named_with_the_fix(capsys):
    assert told(by(0.1), quiet_hours=NIGHT, minimum_change={"time": 0.05}) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("Airflow variable 'batchmark_alerts': quiet_hours is ignored")
    assert "Remove it" in printed
    assert told(by(0.1)) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("one", "is_told"),
    [
        (by(0.031), True),
        (by(0.029), False),
        (by(-0.03), True),
        (by(-0.028), False),
        (by(0.031, metric="price"), True),
        (by(0.99, metric="noise"), False),
        (by(1.01, metric="noise"), True),
        (by(-0.49, metric="noise"), False),
        (by(-0.51, metric="noise"), True),
        (by(-0.03, metric="speedup"), True),
    ],
)
def test_by_default_three_percent_are_told_and_twice_the_noise(one, is_told):
    assert bool(told(one)) is is_told


def test_a_minimum_holds_for_the_metric_it_names():
    minimum = {"time": 0.10}
    assert told(by(0.09), minimum_change=minimum) is None
    assert told(by(0.11), minimum_change=minimum) == 1
    assert told(by(0.09, metric="price"), minimum_change=minimum) == 1


def test_the_first_rule_that_matches_holds():
    rules = [
        {"match": {"workload": "matmul", "target": "g5.*"}, "minimum_change": {"time": 0.2}},
        {"match": {"workload": "matmul"}, "mute": True},
    ]
    assert told(by(0.1), series=rules) is None
    assert told(by(0.3), series=rules) == 1
    assert told(by(0.3, of=series(target="g6.xlarge")), series=rules) is None
    assert told(by(0.05, of=series(workload="gaussian_blur")), series=rules) == 1
    # Where a rule names no minimum of a metric, the general one holds.
    assert told(by(0.04, metric="price"), series=rules) == 1


PRICE = by(0.1, metric="price", of=series(workload=None, parameters=None, dtype=None))


@pytest.mark.parametrize(
    ("one", "match", "is_mute"),
    [
        (by(0.1), {"parameters": '*"size":5000*', "dtype": "float*"}, True),
        (by(0.1, of=series(parameters='{"size":50}')), {"parameters": '*"size":5000*'}, False),
        (PRICE, {"workload": "matmul"}, False),  # it has none
        (PRICE, {"target": "g5.xlarge"}, True),
    ],
)
def test_a_rule_matches_all_that_it_names_parameters_in_their_json(one, match, is_mute):
    assert told(one, series=[{"match": match, "mute": True}]) == (None if is_mute else 1)


def test_of_many_series_those_that_are_told_remain():
    settings = AlertSettings.model_validate(
        {"series": [{"match": {"parameters": "*100[0-2]*"}, "mute": True}]}
    )
    found = settings.worth_telling(moved(20, 1.0, 1.1, some_series(5)))
    assert [one.series.parameters for one in found.points] == ['{"size":1003}', '{"size":1004}']


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "document: Invalid JSON"),
        ("[]", "document: Input should be an object, got []"),
        ('{"minimum": 3}', "minimum: Extra inputs are not permitted, got 3"),
        ('{"minimum_change": {"speed": 0.1}}', "Input should be 'time', 'price', 'noise' or 's"),
        ('{"minimum_change": {"time": -1}}', "minimum_change.time: Input should be greater than"),
        ('{"minimum_change": {"time": "5 %"}}', "got '5 %'"),
        ('{"series": [{"mute": true}]}', "series.0.match: Field required"),
        ('{"series": [{"match": {"size": "5"}}]}', "series.0.match.size: Extra inputs"),
        ('{"apprise_conn_ids": [""]}', "apprise_conn_ids.0: String should have at least 1 char"),
        ('{"apprise_conn_ids": "slack"}', "apprise_conn_ids: Input should be a valid"),
    ],
)
def test_what_cannot_be_used_is_named_with_the_fix(text, expected):
    with pytest.raises(AlertError) as refused:
        parse_settings(text)
    assert str(refused.value).startswith("Airflow variable 'batchmark_alerts' can't be used: ")
    assert expected in str(refused.value)
    assert "correct it in Airflow (Admin, Variables)" in str(refused.value)
