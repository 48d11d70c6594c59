"""The alerts as the report lists them."""

from __future__ import annotations

from batchmark.alerts.board import alert_board
from batchmark.alerts.precision import precision
from batchmark.rates import Rate
from tests.unit.alerts.builders import NOW, change, in_state, opened, point, run_id, series

SLOWER = opened()[0]
DEARER = opened(change(point(22, 1.0, 1.2, metric="price", of=series(workload=None))))[0]


def test_a_line_says_what_changed_where_and_since_when():
    seen = DEARER.become("acknowledged", at=NOW, by="ada", run_id="manual-0", note="new price list")
    board = alert_board([seen, SLOWER], None, "https://airflow.example/")
    slower, dearer = board.lines
    assert slower.model_dump() == {
        "alert_id": SLOWER.id,
        "kind": "slower",
        "title": "Slower on g5.xlarge: matmul size 5000, float32, +20 %",
        "suite": "blog",
        "state": "open",
        "since_run_id": run_id(20),
        "change": SLOWER.change.points[0].change,
        "change_url": "https://airflow.example/dags/change_alert",
        "note": None,
    }
    assert (dearer.state, dearer.note) == ("acknowledged", "new price list")
    assert dearer.title == "Dearer: g5.xlarge, $1 an hour → $1.2 an hour, +20 %"
    assert f'"alert_id": "{SLOWER.id}"' in board.how_to_change


def test_what_is_closed_or_came_back_is_not_listed_but_counts_as_judged():
    alerts = [in_state(SLOWER, state) for state in ("invalid", "fixed", "recovered")]
    board = alert_board(alerts, precision(alerts), None)
    assert board.lines == ()
    assert board.how_to_change == ""
    assert board.precision == Rate.of(2, 3)


def test_without_an_address_of_airflow_there_is_no_link_but_the_command():
    board = alert_board([SLOWER], None, None)
    assert board.lines[0].change_url is None
    assert "airflow dags trigger change_alert" in board.how_to_change.splitlines()[-1]
