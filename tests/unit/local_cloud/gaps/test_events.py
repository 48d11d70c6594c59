"""What the local cloud's EventBridge adds to moto's."""

import pytest

from local_cloud.gaps.events import as_sent, fill_text, flatten


@pytest.mark.parametrize(
    ("event", "flat"),
    [
        ({"a": {"b": 1}}, {"a.b": 1}),
        ({"a": {}}, {"a": {}}),
        ({"a": ["x", "y"]}, {"a": ["x", "y"]}),
        ({"a": [{"b": 1}, {"b": 2, "c": 3}]}, {"a.b": [1, 2], "a.c": [3]}),
        ({"a": [{"b": [1, 2]}, {"b": [3]}]}, {"a.b": [1, 2, 3]}),
        ({"a": [{"b": [{"c": 1}, {"c": 2}]}]}, {"a.b.c": [1, 2]}),
        ({"a": ["x", {"b": 1}]}, {"a.b": [1]}),
    ],
)
def test_objects_in_arrays_are_matched_by_any_of_them(event, flat):
    got = flatten(event)
    assert {name: got[name] for name in flat} == flat


def test_a_template_is_filled_in():
    event = {"detail": {"name": "a <b>", "count": 2, "tags": ["x"]}}
    paths = {"n": "$.detail.name", "c": "$.detail.count", "t": "$.detail.tags", "m": "$.detail.no"}
    assert fill_text('"<n>: <c> <t> <m>."', paths, event) == '"a <b>: 2 ["x"] ."'


def test_an_event_is_sent_without_motos_own_fields():
    event = {"id": "1", "time": 1_700_000_000.5, "ingestion-time": 1.0}
    assert as_sent(event) == {"id": "1", "time": "2023-11-14T22:13:20Z"}
    assert as_sent({"time": "2023-11-14T22:13:20Z"}) == {"time": "2023-11-14T22:13:20Z"}
