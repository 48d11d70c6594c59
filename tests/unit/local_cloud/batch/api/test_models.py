"""What the local cloud's Batch refuses to register and to run."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from local_cloud.batch.api import submission
from local_cloud.batch.api.models import JobsBatchBackend
from tests.unit.local_cloud.conftest import SETTINGS, of_nodes

CONTAINERS = replace(SETTINGS, jobs="containers")
ROOT = {"image": "i", "vcpus": 1, "memory": 4, "privileged": True}
SINGLE = {"jobDefinitionName": "d", "type": "container", "containerProperties": ROOT}


@pytest.mark.parametrize("definition", [SINGLE, of_nodes(ROOT)])
def test_a_job_that_is_root_of_the_machine_is_not_registered(batch, monkeypatch, definition):
    monkeypatch.setattr(JobsBatchBackend, "settings", CONTAINERS)
    refused = batch.refusal("RegisterJobDefinition", **definition)
    assert refused.startswith("privileged: it could give ")
    assert "--allow-host-access" in refused
    assert batch.call("DescribeJobDefinitions")["jobDefinitions"] == []


def test_a_definition_from_before_is_not_run(batch, monkeypatch):
    monkeypatch.setattr(JobsBatchBackend, "settings", CONTAINERS)
    parsed = SimpleNamespace(containers=[SimpleNamespace(properties=ROOT)])
    monkeypatch.setattr(submission, "parse", lambda *_: parsed)
    assert "--allow-host-access" in batch.refused_submission()


@pytest.mark.parametrize("settings", [SETTINGS, replace(CONTAINERS, allow_host_access=True)])
def test_it_is_registered_where_it_is_allowed_and_where_no_container_runs(
    batch, monkeypatch, settings
):
    monkeypatch.setattr(JobsBatchBackend, "settings", settings)
    batch.call("RegisterJobDefinition", **SINGLE)
