"""What many modules say stands in one of them; a file that two places need is a compared copy."""

import re
import subprocess

from batchmark.analysis.judging.significance import POWER
from batchmark.analysis.pairs.answer import Measure
from batchmark.analysis.sharing.knee import WORTH
from batchmark.aws.instance_families import FILE
from batchmark.changes.metric import Metric
from batchmark.report.words import IMAGE_RATE
from batchmark_job.result.confidence import CONFIDENCE, CONFIDENCE_TEXT
from tests.documented import TEXT
from tests.paths import ROOT

CODE = {
    path.relative_to(ROOT): path.read_text()
    for folder in ("plugins", "job_container")
    for ending in ("py", "jinja")
    for path in (ROOT / folder).rglob(f"*.{ending}")
}
CONTRACT = ROOT / "terraform" / "modules" / "analytics" / "history_columns.json"


def places(pattern, texts=CODE):
    """The path and the text of each match."""
    return [(path, one[0]) for path, text in texts.items() for one in re.finditer(pattern, text)]


def test_code_takes_the_confidence_of_intervals_from_its_constant():
    assert places(rf"\b{100 * CONFIDENCE:g}(?: |&nbsp;|\\N{{NO-BREAK SPACE}}|\\xa0)?%") == []
    assert places(r"\b0?\.(?:975|025)\b|\b1\.96\b|\b1\.9599") == []  # its quantiles
    (only,) = places(r"(?i)\b\w*confidence\w*(?:: float)? ?= ?0?\.\d+")
    assert only[1] == f"CONFIDENCE = {CONFIDENCE}"


def test_docs_name_the_shares_that_the_code_has():
    """Wherever they say what share an interval, the power or a knee has."""
    texts = TEXT | {CONTRACT: CONTRACT.read_text()}
    intervals = places(r"[\d.]+ % interval", texts)
    assert len(intervals) > 5
    assert {share for _, share in intervals} == {f"{CONFIDENCE_TEXT} interval"}
    (power,) = {share for _, share in places(r"[\d.]+ %\s+power", texts)}
    assert " ".join(power.split()) == f"{100 * POWER:g} % power"
    worth = {share for _, share in places(r"[\d.]+ %\s+of\s+(?:the best throughput|their)", texts)}
    assert {share.split(" %")[0] for share in worth} == {f"{100 * WORTH:g}"}


def test_what_a_series_or_an_answer_is_of_is_compared_by_its_constant():
    """Mypy finds a name in quotes everywhere else."""
    name = rf"""["'](?:{"|".join({*Metric, *Measure})})["']"""
    assert places(rf"(?:metric|measure)\)? (?:[!=]=|(?:not )?in) [({{\[]?{name}") == []
    assert places(rf"""{name} (?:[!=]=|(?:not )?in) \S*(?:metric|measure)s?\b|"eq", {name}""") == []


def test_the_plugins_name_the_unit_of_images_and_parse_a_runs_plan_in_one_place():
    (only,) = [path for path, _ in places(rf"\b(?i:{IMAGE_RATE})\b") if path.parts[0] == "plugins"]
    assert only.name == "words.py"
    ((path, _),) = places(r"RunPlan\.model_validate_json")
    assert path.name == "result_bucket.py"


def test_the_repository_holds_no_symbolic_link_but_a_copy_of_the_table_of_families():
    """Archives, Windows and some Git hosts turn a link into a text file that holds its path."""
    listed = subprocess.check_output(["git", "ls-files", "--stage"], cwd=ROOT, text=True)
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []
    assert (ROOT / "terraform/modules/batch" / FILE.name).read_bytes() == FILE.read_bytes()
