"""boto3 clients with the environment's credentials; orchestration has those of connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

Clients = Callable[[str], Any]  # gives a region's client for a service
PATIENT = Config(
    connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 4}
)


def client(service: str, region: str | None, config: Config | None = None) -> Any:
    """A new client; without a region, for the default region of the AWS settings."""
    return boto3.client(service, region_name=region, config=config)


def listed(client: Any, operation: str, field: str, **asked: Any) -> Iterator[Any]:
    """What all pages of an answer list in a field."""
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(field, ())


def patient_clients(region: str) -> Clients:
    """One client per service, created on first use."""
    return cache(lambda service: client(service, region, PATIENT))
