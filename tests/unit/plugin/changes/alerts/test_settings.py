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


LARGE = {"minimum_change": {"time": 0.10}}
# The first one that matches holds; where it names no minimum of a metric, the general one does.
RULES = {
    "series": [
        {"match": {"workload": "matmul", "target": "g5.*"}, "minimum_change": {"time": 0.2}},
        {"match": {"workload": "matmul"}, "mute": True},
    ]
}
PRICE = by(0.1, metric="price", of=series(workload=None, parameters=None, dtype=None))


def mute(**match):
    return {"series": [{"match": match, "mute": True}]}


@pytest.mark.parametrize(
    ("one", "settings", "is_told"),
    [
        (by(0.031), {}, True),
        (by(0.029), {}, False),
        (by(-0.03), {}, True),
        (by(-0.028), {}, False),
        (by(0.031, metric="price"), {}, True),
        (by(0.99, metric="noise"), {}, False),
        (by(1.01, metric="noise"), {}, True),
        (by(-0.49, metric="noise"), {}, False),
        (by(-0.51, metric="noise"), {}, True),
        (by(-0.03, metric="speedup"), {}, True),
        (by(0.09), LARGE, False),
        (by(0.11), LARGE, True),
        (by(0.09, metric="price"), LARGE, True),
        (by(0.1), RULES, False),
        (by(0.3), RULES, True),
        (by(0.3, of=series(target="g6.xlarge")), RULES, False),
        (by(0.05, of=series(workload="gaussian_blur")), RULES, True),
        (by(0.04, metric="price"), RULES, True),
        (by(0.1), mute(parameters='*"size":5000*', dtype="float*"), False),
        (by(0.1, of=series(parameters='{"size":50}')), mute(parameters='*"size":5000*'), True),
        (PRICE, mute(workload="matmul"), True),  # it has none
        (PRICE, mute(target="g5.xlarge"), False),
    ],
)
def test_what_is_told_by_default_above_a_minimum_and_by_rules(one, settings, is_told):
    assert bool(told(one, **settings)) is is_told


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
