"""Airflow's auth manager in memory, for the pages' tests: who is looking, and what they may do."""

from __future__ import annotations

from collections import namedtuple
from contextlib import contextmanager
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import get_user
from fastapi import HTTPException
from fastapi.testclient import TestClient

from batchmark.core.kinds import KINDS
from batchmark.orchestration.web import access, airflow_runs
from batchmark.orchestration.web.airflow_runs import Schedule
from batchmark.orchestration.web.app import application
from batchmark.orchestration.web.library import Library

SECRET = "of the tests"
READING = {("GET", dag_id) for dag_id in (*KINDS, "another")}
RIGHTS = {
    "stranger": set(),
    "viewer": READING,
    "editor": READING | {("POST", access.EDIT_DAG)},
}


class User(namedtuple("User", "name")):
    def get_id(self):
        return f"id-{self.name}"

    def get_name(self):
        return self.name


class AuthManager:
    def is_authorized_dag(self, *, method, access_entity, details, user):
        return (method, details.id) in RIGHTS[user.name]


class Pages:
    """The application over a bucket, as somebody sees it."""

    def __init__(self, monkeypatch, shelf, config):
        self.app = application()
        self.runs, self.failures, self.schedule = [], [], Schedule(4, paused=False)
        found = Library(config)
        self.app.state.library = lambda: found
        self.visitor = "editor"
        self.app.dependency_overrides[get_user] = self._user
        monkeypatch.setattr(access, "get_auth_manager", AuthManager)
        monkeypatch.setattr(access.DagModel, "get_team_name", lambda dag_id: None)
        monkeypatch.setattr(access.conf, "get", lambda *_, **__: SECRET)
        monkeypatch.setattr(airflow_runs, "runs", self._runs)
        monkeypatch.setattr(airflow_runs, "failures", lambda *_: self.failures)
        monkeypatch.setattr(airflow_runs, "schedule", lambda dag_id, now: self.schedule)
        self.client = TestClient(
            self.app, base_url="http://airflow.example", headers={"accept": "text/html"}
        )

    def _user(self):
        if self.visitor is None:
            raise HTTPException(401, "Not authenticated")
        if self.visitor == "of yesterday":  # logged in before Airflow began anew
            raise HTTPException(403, "Invalid JWT token")
        return User(self.visitor)

    def _runs(self, dag_ids, run_id=None):
        runs = [run for run in self.runs if run.dag_id in dag_ids]
        return [run for run in runs if run_id in (None, run.run_id)]

    @contextmanager
    def seen_by(self, visitor):
        before, self.visitor = self.visitor, visitor
        yield self.client
        self.visitor = before

    def text(self, path, status=200):
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text[-2000:]
        return answer.text


def sides(first, second, targets=("g5.xlarge", "g5.xlarge")):
    """What asks for the comparison of two runs, each with a target."""
    a, b = targets
    return urlencode({"a": first, "a_target": a, "b": second, "b_target": b})
