"""boto3 clients whose answers a test states; botocore checks their shapes and the questions."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
from botocore.stub import Stubber

ACCESS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@cache
def session(region: str) -> boto3.Session:
    """One for all tests: it reads each service's model, which takes long, but once."""
    return boto3.Session(region_name=region, **ACCESS)


class StubbedClients:
    """Called with a service's name it gives its client; each answer is given once, in order."""

    def __init__(self, region: str) -> None:
        self._session = session(region)
        self._clients: dict[str, Any] = {}
        self._stubbers: dict[str, Stubber] = {}

    def __call__(self, service: str) -> Any:
        if service not in self._clients:
            client = self._session.client(service)
            self._clients[service] = client
            self._stubbers[service] = Stubber(client)
            self._stubbers[service].activate()
        return self._clients[service]

    def answer(self, service: str, method: str, response: dict, asked: dict | None = None) -> None:
        self(service)
        self._stubbers[service].add_response(method, response, asked)

    def refuse(self, service: str, method: str, code: str, message: str = "") -> None:
        self(service)
        self._stubbers[service].add_client_error(method, code, message)

    def assert_all_was_asked(self) -> None:
        for stubber in self._stubbers.values():
            stubber.assert_no_pending_responses()
