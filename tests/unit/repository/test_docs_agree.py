"""What the docs say in figures and names, compared with the code that knows better."""

import json
import math
import re
from datetime import UTC, datetime

import pytest
import yaml

from batchmark.analysis.cost import BOOT_AND_IDLING
from batchmark.analysis.judging.significance import ASSUMED, Resolution, change_detected_by
from batchmark.analysis.published import NOISE, published_table
from batchmark.changes.attribution import HOURS_PER_MONTH
from batchmark.changes.evidence import LEAST_AFTER, LEAST_BEFORE
from batchmark.changes.suspects import too_early
from batchmark.core.formatting import difference_text
from batchmark.core.own_jobs import OwnJobRun
from batchmark.core.prices import load_prices, price_file
from batchmark.orchestration.forms import MAX_COST_USD
from batchmark.runs.budget import worst_case
from batchmark.runs.plans.own_job_plan import plan_own_jobs
from batchmark_job.workloads.builtin import WORKLOADS
from laptop.aws_check.command import uses_of
from laptop.aws_check.estimate import estimate
from laptop.aws_check.steps.parts import PARTS
from tests.builders import existing_jobs
from tests.builders.installations import configured, own_types
from tests.unit.repository.test_commands import ROOT, TEXT

VARIABLES = (ROOT / "terraform" / "variables.tf").read_text()
JOBS = (ROOT / "terraform" / "modules" / "own_jobs" / "variables.tf").read_text()


def default_of(variable):
    return re.search(rf'variable "{variable}" .*?default += (.*?)\n', VARIABLES, re.DOTALL)[1]


TWO = ["g4dn.xlarge", "c5.2xlarge"]
SIX = [n for kind in ("gpu", "cpu") for n in json.loads(default_of(f"{kind}_instance_types"))]


def words(page):
    return " ".join((ROOT / "docs" / page).read_text().split())


def test_how_many_runs_a_change_needs():
    needed, with_fresh_jobs = LEAST_BEFORE + LEAST_AFTER, LEAST_BEFORE + 1
    report = too_early(0)
    assert f"needs {needed} more, or {with_fresh_jobs} if a slow run is measured again" in report
    regressions = words("regressions.md")
    assert f"{needed} runs to show one: {LEAST_BEFORE} before it" in regressions
    assert f"and {LEAST_AFTER} from it on" in regressions
    assert f"With fresh jobs {with_fresh_jobs} will do: {LEAST_BEFORE} before" in regressions
    assert f"needs a history of {needed} runs, or {with_fresh_jobs} if" in words("own-jobs.md")
    assert f"fewer than {needed} runs ({with_fresh_jobs} with fresh jobs)" in words("runbook.md")


def test_the_assumed_noise_and_where_the_published_table_is_from():
    scatter, single = difference_text(math.expm1(ASSUMED.log_sd)), difference_text(NOISE - 1)
    measurement = words("measurement.md")
    table = published_table()
    title, author = table.name.removeprefix("the table of ").split(", ")
    assert f"{title}, is {author}." in measurement
    assert f"{table.read_on:%d %B %Y}" in measurement
    assert f"A standard deviation of {scatter} from job to job is assumed" in measurement
    assert f"{ASSUMED.log_sd} of the logarithm" in measurement
    assert f"from {single} (a change of {100 * (NOISE - 1):.0f} %) on" in measurement
    assert round(math.exp(Resolution(ASSUMED, 1, ASSUMED, 1).margin), 1) == 2
    for page in ("runbook.md", "ci-gate.md"):
        said = words(page)
        assert f"a scatter of {scatter} from job to job" in said
        assert f"may differ by {single}" in said


def test_what_the_gates_repeats_find():
    for percent, scatter in ((4, 0.02), (10, 0.05), (20, 0.1)):
        assert round(100 * change_detected_by(15, scatter)) == percent
    assert "4 % if jobs scatter by 2 %, of 10 % by 5 %, of 20 % by 10 %" in words("ci-gate.md")


def test_what_idling_costs_adds_up():
    table = TEXT[ROOT / "docs" / "runbook.md"].partition("## What it costs while idle")[2]
    rows = [line.split("|") for line in table.partition("\n\nOptions")[0].splitlines()]
    *parts, together = (row for row in rows if len(row) > 4 and "$" in row[2])
    for column in (2, 3):
        sums = [sum(end) for end in zip(*(dollars(row[column]) for row in parts), strict=True)]
        assert sums == pytest.approx(dollars(together[column]))
    of_a_month = rows_of("A month, in all")["[idle](#what-it-costs-while-idle)"]
    assert of_a_month == [dollars(together[2]), dollars(together[3])]
    (least, _), (_, most) = of_a_month
    assert f"while-idle) ${least:.2f} to ${most:.2f}" in TEXT[ROOT / "README.md"]


def rows_of(title):
    """What each row of the runbook's table says of two targets and of six, by its first cell."""
    table = TEXT[ROOT / "docs" / "runbook.md"].partition(f"## {title}")[2]
    lines = table.partition("\n##")[0].splitlines()
    rows = [line.split("|") for line in lines if line.startswith("|") and "$" in line]
    return {row[1].strip(): [dollars(row[2]), dollars(row[3])] for row in rows}


def test_what_a_month_costs_in_all():
    rows = rows_of("A month, in all")
    idle, own = rows["[idle](#what-it-costs-while-idle)"], rows["idle, own jobs alone"]
    together = rows["**idle and both**"]
    own_alone = rows["**own jobs alone, one of 5 to 10 minutes**"]
    weekly = rows["+ `gpu_cpu_benchmark`, or an own job of 5 to 10 minutes, weekly"]
    booting = rows["+ any own job, weekly: boot and idling"]
    a_minute = rows["+ each minute of its jobs on each target"]
    runs = []
    for column, types in enumerate((TWO, SIX)):
        a_run = [round(minutes / 60 * an_hour(types), 2) for minutes in OF_A_RUN]
        runs.append("${:.2f} to ${:.2f}".format(*a_run))
        for row, minutes in ((booting, BOOT_AND_IDLING), (a_minute, (1, 1))):
            usd = [minute / 60 * an_hour(types) for minute in minutes]
            assert row[column] == pytest.approx([1.08 * 4.35 * one for one in usd], abs=0.006)
        assert weekly[column] == pytest.approx([1.08 * 4.35 * one for one in a_run], abs=0.006)
        for sums, rows_added in ((own_alone, [own, weekly]), (together, [idle, weekly, weekly])):
            ends = zip(*(row[column] for row in rows_added), strict=True)
            assert list(map(sum, ends)) == pytest.approx(sums[column])
    told = f"{runs[0]} for two and {runs[1]} for six, and about 8 % for volumes and addresses; "
    told += "a month has 4.35 weeks, with 14 daily runs first"
    assert f"{told} {(14 + 4.35 - 14 / 7) / 4.35:.2f} times as many runs" in words("runbook.md")
    usd = HOURS_PER_MONTH * load_prices().on_demand["m5.large"]
    assert f"an m5.large for your Airflow ${usd:.2f}" in words("runbook.md")
    image = rows_of("What it costs while idle")["job image in ECR"][0][0]
    for column, ends in enumerate(idle):
        assert own[column] == pytest.approx([usd - image for usd in ends])
    assert f"no image of ours (${image:.2f})" in words("runbook.md")
    two, six = (f"${least:.2f} to ${most:.2f}" for least, most in together)
    readme = " ".join(TEXT[ROOT / "README.md"].split())
    assert f"{two} with two targets, {six} with six" in readme


def test_what_a_hosts_volume_costs():
    size, throughput = (
        int(default_of(f"volume_{name}")) for name in ("size_gib", "throughput_mib_s")
    )
    runbook = words("runbook.md")
    a_gb, a_mb_s = map(
        float, re.search(r"\$([\d.]+) per GB and month, and \$([\d.]+) per MB/s", runbook).groups()
    )
    assert f"${size * a_gb:.2f} for its {size} GiB" in runbook
    # gp3 includes 125.
    assert f"${(throughput - 125) * a_mb_s:.2f} for its {throughput} MiB/s" in runbook


def test_what_a_first_apply_costs():
    text = TEXT[ROOT / "docs" / "first-apply.md"]
    usual = estimate(load_prices()).usd
    assert f"| the usual | ${usual:.2f} |" in text
    for name, part in PARTS.items():
        more = estimate(load_prices(), uses_of([part]), part.beside).usd - usual
        assert f"| `WITH={name}` | ${more:.2f} more |" in text
    beside = [cost for part in PARTS.values() for cost in part.beside]
    together = estimate(load_prices(), uses_of(PARTS.values()), beside).usd
    assert f"`WITH={','.join(PARTS)}`" in words("aws-check.md")
    assert f"all three together come to ${together:.2f}" in words("aws-check.md")


def dollars(cell):
    """The least and the most that a cell names."""
    amounts = [float(amount) for amount in re.findall(r"\$([\d.]+)", cell)]
    return amounts[0], amounts[-1]


OF_JOBS = (5, 10)
OF_A_RUN = tuple(map(sum, zip(OF_JOBS, BOOT_AND_IDLING, strict=True)))


def an_hour(types):
    prices = json.loads(price_file("us-east-1").read_text())["on_demand"]
    return sum(prices[name] for name in types)


def test_what_a_run_is_expected_to_cost():
    runbook, own_jobs = words("runbook.md"), words("own-jobs.md")
    assert f"The six cost ${an_hour(SIX):.2f} an hour together" in runbook
    for least, most in (OF_JOBS, OF_A_RUN):
        assert f"{least} to {most} minutes" in runbook
        assert f"${least / 60 * an_hour(SIX):.2f} to ${most / 60 * an_hour(SIX):.2f}" in runbook
    for least, most in (OF_JOBS, BOOT_AND_IDLING):
        assert re.search(rf"\b{least} to {most} minutes", own_jobs)
    two = "${:.2f} to ${:.2f}".format(*(m / 60 * an_hour(TWO) for m in OF_A_RUN))
    assert f"{two} a run" in own_jobs


def test_a_price_of_an_instance_has_its_date():
    """That of the committed table, wherever docs name an instance type and dollars together."""
    stacks = {path: path.read_text() for path in (ROOT / "terraform").rglob("README.md")}
    paragraphs = [part for text in (TEXT | stacks).values() for part in re.split(r"\n\s*\n", text)]
    types = "|".join(map(re.escape, load_prices().on_demand))
    priced = [
        text
        for text in paragraphs
        if re.search(rf"\b(?:{types})\b|The six cost", text) and re.search(r"\$\d|\d USD", text)
    ]
    assert len(priced) > 5
    assert [text for text in priced if str(load_prices().as_of) not in text] == []
    assert f"table of us-east-1 is AWS's list of {load_prices().as_of}" in words("runbook.md")


OWN_JOBS_PAGE = ROOT / "docs" / "own-jobs.md"
OWN_JOBS_FILES = (
    ROOT / "README.md",
    OWN_JOBS_PAGE,
    ROOT / "job_container" / "own_jobs" / "thumbnails" / "job.tfvars",
)


def most_usd(file, types, timeout_seconds=None):
    """What the own job of a page can cost at most on targets that go on On-Demand after Spot."""
    snippet = re.search(r"^own_jobs = \{.*?^\}", file.read_text(), re.DOTALL | re.MULTILINE)[0]
    job = existing_jobs.own_jobs(
        command=["convert", "Ref::size"],
        parameters={},
        axis={
            "parameter": "size",
            "sizes": json.loads(re.search(r"sizes = (\[.*?\])", snippet)[1]),
        },
        job_definitions={name: f"arn:own-{name}:1" for name in types},
        timeout_seconds=timeout_seconds or int(re.search(r"timeout_seconds += (\d+)", snippet)[1]),
        attempts=int(re.search(r"attempts += optional\(number, (\d)", JOBS)[1]),
    )
    targets = own_types(**{name: {"job_queue": f"arn:queue-{name}"} for name in types})
    config = configured(targets=targets)
    jobs = plan_own_jobs(config, job, OwnJobRun(job="thumbnails"), run_name="run")
    return worst_case(config, jobs, load_prices(), datetime.now(UTC)).usd


def test_an_own_job_of_the_docs_passes_the_budget_gate_of_the_default_stack():
    assert default_of("purchasing") == '"spot_first"'
    for file in OWN_JOBS_FILES:
        assert 0 < most_usd(file, SIX) < MAX_COST_USD, file
    default = int(re.search(r"timeout_seconds += optional\(number, (\d+)", JOBS)[1])
    least, most = (most_usd(OWN_JOBS_PAGE, types) for types in (TWO, SIX))
    refused = [most_usd(OWN_JOBS_PAGE, types, default) for types in (TWO, SIX)]
    assert min(refused) > MAX_COST_USD
    said = words("own-jobs.md")
    assert f"can cost ${least:.2f} at most on two targets (g4dn.xlarge and c5.2xlarge)" in said
    assert f"and ${most:.2f} on Terraform's six" in said
    assert f"${refused[0]:.2f} and ${refused[1]:.2f}, which the form's" in said
    assert f"`max_cost_usd` of {MAX_COST_USD} refuses" in said


def test_the_workflow_of_the_gate_gives_the_action_what_it_takes_and_its_recipe_two_versions():
    page, action = ((ROOT / name).read_text() for name in ("docs/ci-gate.md", "action.yml"))
    workflow, *_, recipe = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    _, step = workflow["jobs"]["benchmark"]["steps"]
    inputs = yaml.safe_load(action)["inputs"].keys()
    assert step["uses"].startswith("YOUR_ORGANISATION/batchmark@")
    assert step["with"].keys() <= inputs
    for name in re.findall(r"`([a-z-]+): true`", page):
        assert name in inputs
    needed = {"contents": "read", "actions": "read", "pull-requests": "write"}
    assert workflow["permissions"] == needed

    steps = [step.get("run", "") for step in recipe["jobs"]["benchmark"]["steps"]]
    (in_turns,) = (step for step in steps if "batchmark-job run" in step)
    installed, measured = in_turns.index("uv pip install"), in_turns.index("batchmark-job run")
    assert in_turns.index("for side in old new") < installed < measured
    assert "./$side" in in_turns[installed:measured]
    assert re.search(r"^uv==", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)


def test_the_recipe_of_a_workload_names_each_file_that_lists_workloads():
    recipe = re.search(r"^\| a workload \|.*$", TEXT[ROOT / "CONTRIBUTING.md"], re.MULTILINE)[0]
    named = re.findall(r"`([\w/]+/[\w/.]*)`", recipe)
    assert [name for name in named if not (ROOT / name).exists()] == []
    for folder in ("benchmarks", "job_container", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            listed = set(re.findall(r'"(\w+)"', path.read_text()))
            if listed >= WORKLOADS.keys():
                assert str(path.relative_to(ROOT)) in named, f"the recipe lacks {path}"
