"""Shares boto3 clients, which retry when throttled, among operators and triggers."""

from __future__ import annotations

import json
import threading
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakValueDictionary

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from botocore.config import Config

PATIENT_ATTEMPTS = 6  # twice botocore's default, as all tasks share an account's rate limits


class AwsAccess(NamedTuple):
    """The AWS connection settings of Airflow's AWS operators and triggers, in hashable form."""

    aws_conn_id: str | None = None
    region_name: str | None = None
    verify: bool | str | None = None
    botocore_config: str = "{}"

    @classmethod
    def of(cls, owner: Any) -> Self:
        """Return the settings of one of Airflow's AWS operators or triggers."""
        config = json.dumps(owner.botocore_config or {}, sort_keys=True)
        return cls(owner.aws_conn_id, owner.region_name or None, owner.verify, config)


class AwsClients:
    """Creates and caches boto3 clients; sharing one session makes each additional client cheap.

    It is thread-safe: while one thread creates a client, others wait.
    """

    _shared: ClassVar[WeakValueDictionary[AwsAccess, AwsClients]] = WeakValueDictionary()

    def __init__(self, access: AwsAccess) -> None:
        self.access = access
        self._made: dict[tuple[str, int], Any] = {}
        self._lock = threading.RLock()  # re-entrant, as on_kill runs in a signal handler

    @classmethod
    def shared(cls, access: AwsAccess) -> AwsClients:
        """Return this process's clients for these settings; they stay cached while in use."""
        clients = cls._shared.get(access)
        if clients is None:
            clients = cls._shared[access] = cls(access)
        return clients

    def __call__(self, service: str, *, attempts: int = PATIENT_ATTEMPTS) -> Any:
        """Return a client that attempts a request up to `attempts` times if it is throttled."""
        with self._lock:
            key = (service, attempts)
            if key not in self._made:
                ours = Config(
                    retries={"mode": "adaptive", "total_max_attempts": attempts},
                    connect_timeout=5,
                    read_timeout=30,
                )
                self._made[key] = self._session.client(
                    service,
                    endpoint_url=self._hook.conn_config.get_service_endpoint_url(service),
                    config=self._hook.config.merge(ours),
                    verify=self._hook.verify,
                )
            return self._made[key]

    @cached_property
    def _hook(self) -> AwsBaseHook:
        return AwsBaseHook(
            client_type="batch",
            aws_conn_id=self.access.aws_conn_id,
            region_name=self.access.region_name,
            verify=self.access.verify,
            config=json.loads(self.access.botocore_config) or None,
        )

    @cached_property
    def _session(self) -> Any:
        return self._hook.get_session(region_name=self._hook.region_name)
