"""What the docs say in figures and names, compared with the code that knows better."""

import re

import yaml

from batchmark.analysis.published import published_table
from batchmark.changes.change_points import LEAST_AFTER, LEAST_BEFORE
from batchmark.changes.suspects import too_early
from batchmark_job.workloads.user_files import FOLDER_VARIABLE, find_user_files
from tests.unit.repository.test_commands import ROOT


def words(page):
    return " ".join((ROOT / "docs" / page).read_text().split())


def test_how_many_runs_a_change_needs():
    needed, with_fresh_jobs = LEAST_BEFORE + LEAST_AFTER, LEAST_BEFORE + 1
    report = too_early(0)
    assert f"needs {needed} runs" in report
    assert f"; {with_fresh_jobs} if a slow run is measured again" in report
    regressions = words("regressions.md")
    assert f"{needed} runs to show one: {LEAST_BEFORE} before it" in regressions
    assert f"and {LEAST_AFTER} from it on" in regressions
    assert f"With fresh jobs {with_fresh_jobs} will do: {LEAST_BEFORE} before" in regressions
    assert f"fewer than {needed} runs ({with_fresh_jobs} with fresh jobs)" in words("runbook.md")


def test_where_the_published_table_is_from():
    table, measurement = published_table(), words("measurement.md")
    title, author = table.name.removeprefix("the table of ").split(", ")
    assert f"{title}, is {author}." in measurement
    assert f"{table.read_on:%d %B %Y}" in measurement


def test_the_recipe_of_the_gate_measures_two_versions_of_a_library():
    page = (ROOT / "docs" / "ci-gate.md").read_text()
    recipe = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    steps = [step.get("run", "") for step in yaml.safe_load(recipe)["jobs"]["benchmark"]["steps"]]
    (in_turns,) = (step for step in steps if "batchmark-job run" in step)
    installed, measured = in_turns.index("uv pip install"), in_turns.index("batchmark-job run")
    assert in_turns.index("for side in old new") < installed < measured
    assert "./$side" in in_turns[installed:measured]
    assert re.search(r"^uv==", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)


def test_the_suite_own_measures_a_users_folder_alone(tmp_path, monkeypatch):
    (tmp_path / "mine.py").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert list(find_user_files()) == ["mine"]
    assert "in the folder that `BATCHMARK_WORKLOADS` names, and no others" in words("ci-gate.md")
