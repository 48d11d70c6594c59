"""The forms of own_job_benchmark and job_comparison, and that what they take can be planned."""

import json
import re

from batchmark.core.own_jobs import ComparisonRun, OwnJobRun
from batchmark.runs.own_jobs.sides import Side, parse_sides
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.own_job_plan import plan_comparison, plan_own_jobs
from tests.builders.existing_jobs import found, own_jobs
from tests.builders.installations import configured
from tests.paths import ROOT

OWN, COMPARISON = "own_job_benchmark", "job_comparison"
PAGE = (ROOT / "docs" / "dags.md").read_text()


def test_the_defaults_run_an_own_job_on_all_its_targets_and_sizes(dag_bag):
    params, names = dag_bag.dags[OWN].params, ("sizes", "targets", "repeats", "deadline_seconds")
    filled_in = {name: params.get_param(name).resolve() for name in names}
    wanted = parse_options(OwnJobRun, {**filled_in, "job": "thumbnails"})
    jobs = plan_own_jobs(configured(), own_jobs(), wanted, run_name="run")
    assert len(jobs) == 2 + 2 * 2 * 6


def test_the_example_in_the_docs_is_taken_by_the_form_and_can_be_planned(dag_bag):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    conf = json.loads(text)
    for name, value in conf.items():
        dag_bag.dags[COMPARISON].params.get_param(name).resolve(value)
    sides = {side.name: found(side.name, side=side) for side in parse_sides(conf["sides"])}
    config = configured().model_copy(
        update={"targets": {name: side.target for name, side in sides.items()}}
    )
    wanted = parse_options(ComparisonRun, conf)
    assert len(plan_comparison(config, sides, wanted, run_name="run")) == 1 + 3 * 3 * 6


def test_form_and_docs_have_each_field_of_a_side_and_who_runs_what_by_them(dag_bag):
    table = PAGE[PAGE.index("| field | |") : PAGE.index("Several sides may share")]
    listed = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row[: row.find("|", 1)])
    ]
    assert set(listed) == set(Side.model_fields)
    described = dag_bag.dags[COMPARISON].params.get_param("sides").description
    assert [name for name in Side.model_fields if name not in described] == []
    for text in (described, dag_bag.dags[COMPARISON].doc_md, PAGE):
        assert re.search(r"[Ww]ho may start .*any\s+command", text)
    assert "DAG Run:job_comparison" in PAGE
