"""The forms of own_job_benchmark and job_comparison, and that what they take can be planned."""

import json
import re

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from batchmark.orchestration.own_job_form import own_job_params
from batchmark.runs.own_job_plan import plan_comparison, plan_own_jobs
from batchmark.runs.own_jobs.sides import Side, parse_sides
from tests.builders.existing_jobs import found, own_jobs
from tests.builders.installations import configured
from tests.paths import ROOT

OWN, COMPARISON = "own_job_benchmark", "job_comparison"
PAGE = (ROOT / "docs" / "dags.md").read_text()


@pytest.fixture(scope="module")
def dags():
    return {name: DagBag(ROOT / "dags" / f"{name}.py").dags[name] for name in (OWN, COMPARISON)}


def defaults(dag, *names):
    return {name: dag.params.get_param(name).resolve() for name in names}


def test_the_defaults_run_an_own_job_on_all_its_targets_and_sizes(dags):
    asked = defaults(dags[OWN], "sizes", "targets", "repeats", "deadline_seconds")
    jobs = plan_own_jobs(configured(), own_jobs(), run_name="run", name="thumbnails", **asked)
    assert len(jobs) == 2 + 2 * 2 * 6


def test_own_jobs_are_chosen_from_those_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("BATCHMARK_OWN_JOBS", "thumbnails,transcode")
    job = own_job_params()["job"]
    assert job.schema["examples"] == ["thumbnails", "transcode"]
    assert job.resolve() == "thumbnails"
    assert job.resolve("another") == "another", "Airflow may know of it later than Terraform"
    monkeypatch.delenv("BATCHMARK_OWN_JOBS")
    job = own_job_params()["job"]
    assert "examples" not in job.schema
    assert job.resolve() is None


def test_the_example_in_the_docs_is_taken_by_the_form_and_can_be_planned(dags):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    conf = json.loads(text)
    for name, value in conf.items():
        dags[COMPARISON].params.get_param(name).resolve(value)
    sides = {side.name: found(side.name, side=side) for side in parse_sides(conf["sides"])}
    config = configured().model_copy(
        update={"targets": {name: side.target for name, side in sides.items()}}
    )
    asked = {name: conf[name] for name in ("name", "parameter", "sizes", "deadline_seconds")}
    assert len(plan_comparison(config, sides, run_name="run", **asked)) == 1 + 3 * 3 * 6


def test_every_field_of_a_side_is_in_the_docs_and_in_the_form(dags):
    table = PAGE[PAGE.index("| field | |") : PAGE.index("Several sides may share")]
    listed = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row[: row.find("|", 1)])
    ]
    assert set(listed) == set(Side.model_fields)
    described = dags[COMPARISON].params.get_param("sides").description
    assert [name for name in Side.model_fields if name not in described] == []


@pytest.mark.parametrize(
    ("dag_id", "param", "value", "message"),
    [
        (OWN, "job", "Thumb nails", "does not match"),
        (OWN, "sizes", [0], "0 is less than or equal to the minimum of 0"),
        (OWN, "sizes", ["64"], "'64' is not of type 'number'"),
        (OWN, "deadline_seconds", 0, "0 is less than or equal to the minimum of 0"),
        (OWN, "repeats", 0, "0 is less than the minimum of 1"),
        (COMPARISON, "name", "My job", "does not match"),
        (COMPARISON, "sides", ["a"], "'a' is not of type 'object'"),
        (COMPARISON, "parameter", "a b", "does not match"),
    ],
)
def test_the_forms_refuse_what_the_dags_can_not_do(dags, dag_id, param, value, message):
    with pytest.raises(ParamValidationError, match=message):
        dags[dag_id].params.get_param(param).resolve(value)
