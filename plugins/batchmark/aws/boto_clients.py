"""boto3 clients that use the environment's credentials instead of Airflow connections."""

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
    """Create a client, using the AWS configuration's default region if none is given."""
    return boto3.client(service, region_name=region, config=config)


def all_pages(client: Any, operation: str, field: str, **asked: Any) -> Iterator[Any]:
    """Yield a field's items from all pages of an operation's response."""
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(field, ())


def patient_clients(region: str) -> Clients:
    """Return a function that creates one client per service on first use and then reuses it."""
    return cache(lambda service: client(service, region, PATIENT))
