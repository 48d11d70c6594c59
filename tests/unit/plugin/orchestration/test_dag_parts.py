"""The trigger form's fields."""

import os
import subprocess
import sys

import pytest
from airflow.exceptions import AirflowConfigException

from batchmark.orchestration import dag_parts
from tests.builders.installations import configured, target


@pytest.fixture
def published(monkeypatch):
    """Sets what load_config answers; raises what is an exception."""

    def publish(answer, *, backend="any.Backend", parses_for=None):
        def load_config():
            if isinstance(answer, Exception):
                raise answer
            return answer

        dag_parts._published_targets.cache_clear()
        monkeypatch.setattr(dag_parts, "load_config", load_config)
        monkeypatch.setattr(dag_parts.conf, "get", lambda *_, **__: backend)
        context = type("Context", (), {"dag_id": parses_for})
        monkeypatch.setattr(dag_parts, "get_parsing_context", context)

    yield publish
    dag_parts._published_targets.cache_clear()


TARGETS = configured(targets={"g5.xlarge": target("cuda"), "c5.2xlarge": target("cpu")})


def test_targets_are_chosen_from_those_that_terraform_published(published):
    published(TARGETS)
    param = dag_parts.targets_param()
    assert param.schema["examples"] == ["c5.2xlarge", "g5.xlarge"]
    assert param.description == "Instance types; none means all that Terraform made."
    assert param.resolve() == []


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        (AirflowConfigException("nothing is published"), {}),
        (TARGETS, {"backend": ""}),
        (TARGETS, {"parses_for": "gpu_cpu_benchmark"}),  # in a worker, which shows no form
    ],
)
def test_else_they_are_typed(published, answer, options):
    published(answer, **options)
    param = dag_parts.targets_param()
    assert "examples" not in param.schema
    assert "one per line" in param.description
    assert param.resolve(["g5.xlarge"]) == ["g5.xlarge"]


def test_clients_tell_no_task_what_they_found():
    """In a process of its own: the root logger here is pytest's."""
    program = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "import boto3, batchmark.orchestration\n"
        "boto3.client('s3')\n"
    )
    env = os.environ | {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    env |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    found = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert "Found" not in found.stderr
