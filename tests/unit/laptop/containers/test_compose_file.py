"""docker-compose.yaml and what asks whether a service is healthy; no engine is needed."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from batchmark.core.prices import PRICES_FILE
from laptop.airflow import Airflow
from laptop.containers.compose import AIRFLOW, LOCAL_CLOUD
from laptop.containers.secret_files import make_missing
from laptop.processes import free_port
from laptop.stack import aws_environment
from tests.paths import ROOT
from tests.stand_ins.http import serving

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
SERVICES = COMPOSE["services"]
ENV_FILES = {name: ROOT / "containers" / f"{name}.env" for name in ("local", "aws")}
# Settings of a laptop's Airflow that containers get from their image, and settings that differ.
NOT_IN_CONTAINERS = {
    *("AIRFLOW_HOME", "PYTHONPATH", "AIRFLOW__CORE__LOAD_EXAMPLES"),
    *("AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__CORE__PLUGINS_FOLDER"),
}
OTHER_IN_CONTAINERS = {
    *("AIRFLOW__API__HOST", "AIRFLOW__API__PORT", "AIRFLOW__API__BASE_URL"),
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__SECRETS__BACKEND_KWARGS",
}
ONLY_IN_CONTAINERS = {
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL",
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST",
}


def environment_of(service):
    """The settings of the compose file; one whose value a command prints under its own name."""
    found = SERVICES[service].get("environment", {})
    return {name.removesuffix("_CMD"): value for name, value in found.items()}


@pytest.fixture
def laptop_environment(tmp_path):
    airflow = Airflow(tmp_path, 8080, ROOT / "dags", schedules=True)
    return airflow.environment(ROOT, aws_environment("http://127.0.0.1:5000", "airflow", "secret"))


def test_services_are_those_that_the_commands_know_in_the_projects_version():
    assert {*AIRFLOW, LOCAL_CLOUD, "postgres", "airflow-migrate"} == set(SERVICES)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert SERVICES["scheduler"]["image"] == f"${{AIRFLOW_IMAGE:-batchmark-airflow:{version}}}"
    # The migration runs once and before all others.
    assert SERVICES["airflow-migrate"]["restart"] == "no"
    assert SERVICES["airflow-migrate"]["healthcheck"] == {"disable": True}
    for name in AIRFLOW:
        waits = SERVICES[name]["depends_on"]["airflow-migrate"]
        assert waits == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("service", [*AIRFLOW, "airflow-migrate"])
def test_airflow_is_configured_as_on_a_laptop(service, laptop_environment):
    ours = environment_of(service)
    assert set(ours) - set(laptop_environment) == ONLY_IN_CONTAINERS
    of_profile = {
        "BATCHMARK_DEFAULT_SUITE",
        "BATCHMARK_TARGETS",
    }  # in AWS the form proposes another
    assert set(laptop_environment) - set(ours) == NOT_IN_CONTAINERS | of_profile
    for name in of_profile:
        lines = (ROOT / "containers" / "local.env").read_text().splitlines()
        assert f"{name}={laptop_environment[name]}" in lines
    same = set(ours) & set(laptop_environment) - OTHER_IN_CONTAINERS
    random = {"AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY"}
    assert {name: ours[name] for name in same - random} == {
        name: laptop_environment[name] for name in same - random
    }


def test_the_secrets_backend_asks_for_the_same_as_on_a_laptop(laptop_environment):
    name = "AIRFLOW__SECRETS__BACKEND_KWARGS"
    on_laptop = json.loads(laptop_environment[name])
    # In containers boto3 finds these two by itself, in AWS too.
    del on_laptop["region_name"], on_laptop["endpoint_url"]
    assert json.loads(environment_of("scheduler")[name]) == on_laptop


def test_what_the_image_sets_agrees_with_the_laptop():
    dockerfile = (ROOT / "containers" / "Dockerfile").read_text()
    for name in NOT_IN_CONTAINERS:
        assert re.search(rf"\b{name}=\S+", dockerfile), name
    paths = re.search(r"PYTHONPATH=(\S+)", dockerfile)[1].split(":")
    assert paths == [
        "/opt/batchmark",
        *(f"/opt/batchmark/{one}" for one in ("plugins", "job_container")),
        "/opt/batchmark/laptop/airflow_settings",
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_no_rights_that_it_needs_not_and_what_runs_is_watched(service):
    asked = SERVICES[service]
    assert asked["cap_drop"] == ["ALL"]
    assert "cap_add" not in asked
    assert asked["security_opt"] == ["no-new-privileges:true"]
    assert asked["read_only"] is True
    assert not asked.get("privileged")
    assert "network_mode" not in asked
    limits = asked["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    if service != "airflow-migrate":
        assert asked["restart"] == "unless-stopped"
        assert asked["healthcheck"]["test"][0] == "CMD"
        assert asked["healthcheck"]["start_interval"] == "2s"


def test_ports_are_on_loopback_and_the_local_cloud_alone_has_the_engines_socket_and_network():
    published = {name: asked["ports"] for name, asked in SERVICES.items() if "ports" in asked}
    assert published == {
        "api-server": ["${AIRFLOW_ADDRESS:-127.0.0.1}:${AIRFLOW_PORT:-8080}:8080"],
        LOCAL_CLOUD: ["127.0.0.1:${LOCAL_CLOUD_PORT:-5000}:5000"],
    }
    with_socket = [
        name
        for name, asked in SERVICES.items()
        if "docker.sock" in json.dumps(asked.get("volumes", []))
    ]
    on_jobs = [name for name, asked in SERVICES.items() if "jobs" in asked["networks"]]
    assert with_socket == on_jobs == [LOCAL_CLOUD]
    command = SERVICES[LOCAL_CLOUD]["command"]
    assert "--job-network=${COMPOSE_PROJECT_NAME}_jobs" in command
    (option,) = [word for word in command if word.startswith("--prices")]
    assert ROOT / Path(option.partition("=")[2]).relative_to("/opt/batchmark") == PRICES_FILE


def test_secrets_are_files_that_no_setting_image_or_commit_holds(tmp_path):
    make_missing(tmp_path, database_is_there=False)
    expected = {
        f"${{SECRETS_FOLDER:-./containers/secrets}}/{path.name}" for path in tmp_path.iterdir()
    }
    assert {secret["file"] for secret in COMPOSE["secrets"].values()} == expected
    for name, asked in SERVICES.items():
        for setting in asked.get("environment", {}):
            assert not re.search(r"(PASSWORD|SECRET|SECRET_KEY|FERNET_KEY|CONN)$", setting), name
    assert not re.search(r"://[^/\s{]*:[^/\s{]*@", (ROOT / "docker-compose.yaml").read_text())
    names = re.findall(r"^\w+", ENV_FILES["aws"].read_text(), re.MULTILINE)
    assert names == ["AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"]
    ignored = (ROOT / "containers" / ".gitignore").read_text().splitlines()
    assert {"/secrets/", "/state/"} <= set(ignored)
    rules = (ROOT / "containers" / "Dockerfile.dockerignore").read_text().splitlines()
    assert rules[1] == "*"
    assert {rule for rule in rules if rule.startswith("!containers")} == {
        "!containers/requirements.txt",
        "!containers/requirements-build.txt",
        "!containers/entrypoint.sh",
        "!containers/http_ok.sh",
    }


class TestByCompose:
    """What `docker compose` itself makes of it."""

    @pytest.fixture(autouse=True)
    def compose(self):
        if shutil.which("docker") is None:
            pytest.skip("docker is not on the PATH")
        seen = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if seen.returncode:
            pytest.skip("docker has no compose")

    def config(self, profile, **env):
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "COMPOSE_", "AIRFLOW_", "BATCHMARK_"))
            and name not in ("PYTHON_IMAGE", "POSTGRES_IMAGE", "SECRETS_FOLDER")
        }
        done = subprocess.run(
            ["docker", "compose", "config", "--format", "json"],
            cwd=ROOT,
            env={**kept, **({"COMPOSE_PROFILES": profile} if profile else {}), **env},
            capture_output=True,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def test_the_local_profile_leads_to_the_local_cloud_only(self):
        with pytest.raises(AssertionError, match=r"COMPOSE_PROFILES is missing .* is local"):
            self.config("")
        given = {"AWS_ENDPOINT_URL": "x", "AWS_PROFILE": "y", "LOCAL_CLOUD_PORT": "7"}
        shown = self.config("local", **given, COMPOSE_PROJECT_NAME="another")
        environment = shown["services"]["scheduler"]["environment"]
        aws = {name: value for name, value in environment.items() if name.startswith("AWS_")}
        assert aws == {
            "AWS_ENDPOINT_URL": "http://local-cloud:5000",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_SHARED_CREDENTIALS_FILE": "/run/secrets/local_cloud_credentials",
        }
        assert environment["BATCHMARK_BROWSER_ENDPOINT_URL"] == "http://127.0.0.1:7"
        assert LOCAL_CLOUD in shown["services"]
        jobs = shown["networks"]["jobs"]["name"]  # the real name of the network they run on
        assert f"--job-network={jobs}" in shown["services"][LOCAL_CLOUD]["command"]

    def test_the_aws_profile_takes_the_callers_choice_and_no_endpoint(self):
        shown = self.config(
            "aws",
            AWS_PROFILE="mine",
            AWS_DEFAULT_REGION="eu-west-1",
            AWS_SECRET_ACCESS_KEY="never shown",
            AWS_FOLDER="/home/me/.aws",
        )
        asked = shown["services"]["scheduler"]
        aws = {name: value for name, value in asked["environment"].items() if "AWS" in name}
        assert aws == {"AWS_PROFILE": "mine", "AWS_DEFAULT_REGION": "eu-west-1"}
        assert "never shown" not in json.dumps(shown)
        assert LOCAL_CLOUD not in shown["services"]
        mounted = {volume["source"]: volume for volume in asked["volumes"]}
        assert mounted["/home/me/.aws"]["read_only"] is True


SCRIPT = ROOT / "containers" / "http_ok.sh"
HEALTH = b'{"scheduler":{"status":"unhealthy"},"triggerer":{"status":"healthy","latest":null}}'


@pytest.fixture
def port():
    with serving(lambda request: (200 if request.path == "/health" else 503, HEALTH)) as server:
        yield server.server_port


def code(port, *arguments):
    words = [SCRIPT, "127.0.0.1", str(port), *arguments]
    return subprocess.run(words, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("arguments", "healthy"),
    [
        (["/health"], True),
        (["/other"], False),
        (["/health", '"triggerer":{"status":"healthy"'], True),
        (["/health", '"scheduler":{"status":"healthy"'], False),
        (["/other", '"triggerer":{"status":"healthy"'], False),
    ],
)
def test_status_and_text_where_one_is_given_decide(port, arguments, healthy):
    assert (code(port, *arguments) == 0) is healthy
    assert code(free_port(), *arguments) != 0, "a closed port is unhealthy"
