"""boto3 clients with scripted answers; botocore checks the shapes of answers and questions."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import boto3
from botocore.stub import Stubber

ACCESS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@cache
def client(region, service):
    """Return the client that all tests share, as it takes long to make one."""
    return boto3.Session(region_name=region, **ACCESS).client(service)


class StubbedClients:
    """Returns a service's client when called; each answer is given once, in order.

    Only the newest object of this class answers, as all share their clients.
    """

    _active: ClassVar[list[Stubber]] = []

    def __init__(self, region):
        self._region = region
        self._stubbers: dict[str, Stubber] = {}
        while self._active:
            self._active.pop().deactivate()

    def __call__(self, service):
        stubber = self._stubbers.get(service)
        if stubber is None:
            stubber = self._stubbers[service] = Stubber(client(self._region, service))
            stubber.activate()
            self._active.append(stubber)
        return stubber.client

    def answer(self, service, method, response, asked=None):
        self(service)
        self._stubbers[service].add_response(method, response, asked)

    def answer_pages(self, service, method, pages, asked, field="NextToken"):
        """Answer with each page in turn, all but the last with the token of the next."""
        given = {}
        for number, page in enumerate(pages, start=1):
            more = {field: f"page-{number}"} if number < len(pages) else {}
            self.answer(service, method, page | more, asked | given)
            given = more

    def refuse(self, service, method, code, message=""):
        self(service)
        self._stubbers[service].add_client_error(method, code, message)

    def assert_all_was_asked(self):
        for stubber in self._stubbers.values():
            stubber.assert_no_pending_responses()
