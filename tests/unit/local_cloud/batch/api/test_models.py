"""What the local cloud's Batch refuses to register and to run."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from moto.batch.exceptions import ClientException

from local_cloud.batch.api import submission
from local_cloud.batch.api.models import JobsBatchBackend
from tests.unit.local_cloud.conftest import SETTINGS

CONTAINERS = replace(SETTINGS, jobs="containers")
ROOT = {"image": "i", "vcpus": 1, "memory": 4, "privileged": True}
NODES = {"numNodes": 1, "mainNode": 0, "nodeRangeProperties": [{"container": ROOT}]}


@pytest.fixture
def backend(monkeypatch):
    made = JobsBatchBackend("us-east-1", "111122223333")
    scheduler = SimpleNamespace(lock=threading.RLock())
    monkeypatch.setattr(JobsBatchBackend, "settings", CONTAINERS, raising=False)
    monkeypatch.setattr(JobsBatchBackend, "scheduler", scheduler, raising=False)
    return made


def register(backend, container=None, nodes=None):
    fields = ("parameters", "retry_strategy", "timeout", "platform_capabilities", "tags")
    return backend.register_job_definition(
        def_name="d",
        _type="multinode" if nodes else "container",
        container_properties=container,
        node_properties=nodes,
        propagate_tags=False,
        eks_properties=None,
        **dict.fromkeys(fields),
    )


@pytest.mark.parametrize("properties", [{"container": ROOT}, {"nodes": NODES}])
def test_a_job_that_is_root_of_the_machine_is_not_registered(backend, properties):
    with pytest.raises(ClientException, match=r"privileged: it could give .* --allow-host-access"):
        register(backend, **properties)
    assert backend.describe_job_definitions() == []


def test_a_definition_from_before_is_not_run(backend, monkeypatch):
    parsed = SimpleNamespace(containers=[SimpleNamespace(properties=ROOT)])
    monkeypatch.setattr(submission, "parse", lambda *_: parsed)
    with pytest.raises(ClientException, match="--allow-host-access"):
        backend.submit({})
    assert backend._jobs == {}


@pytest.mark.parametrize("settings", [SETTINGS, replace(CONTAINERS, allow_host_access=True)])
def test_it_is_registered_where_it_is_allowed_and_where_no_container_runs(
    backend, monkeypatch, settings
):
    monkeypatch.setattr(JobsBatchBackend, "settings", settings)
    assert register(backend, ROOT).container_properties["privileged"] is True
