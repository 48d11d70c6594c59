"""Bad options: one line, exit code 2, nothing written, and no second of waiting for torch."""

import argparse
import json
import os
import subprocess
import sys
from unittest import mock

import pytest

from batchmark_job import command_line, job
from batchmark_job.command_line import main
from batchmark_job.distributed.node import Node
from batchmark_job.errors import InputError
from batchmark_job.given_version import given_version
from batchmark_job.option_values import add_options
from batchmark_job.result import metric
from batchmark_job.result.document import json_schema
from batchmark_job.result.version import GivenVersion
from batchmark_job.suites import SUITES
from tests.builders.files import finished
from tests.documented import arguments, the_command
from tests.paths import ROOT
from tests.stand_ins.nodes import node_environment

SMOKE = ["--suite", "smoke"]
ROWS = len(SUITES["smoke"].points())
MATMUL = ["--workload", "matmul"]
SHARING, SCALING = ["--suite", "sharing"], ["--suite", "scaling"]
THOUSAND_AND_ONE = "size=" + ",".join(map(str, range(1, 1002)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "nope"], "unknown suite 'nope'; known: smoke, blog, sam"),
        (["--suite", "Ref::suite"], "unknown suite 'Ref::suite'"),
        ([], "specify either --suite"),
        ([*SMOKE, *MATMUL], "specify either --suite"),
        ([*SMOKE, "--axis", "size=8"], "--axis requires --workload"),
        ([*MATMUL, "--axis", "size"], "--axis 'size' is not of the form NAME=V1,V2"),
        ([*MATMUL, "--axis", "size=1", "--axis", "size=2"], "--axis size is specified twice"),
        ([*MATMUL, "--axis", "size=-4"], "--axis size -4 is negative"),
        ([*MATMUL, "--axis", "size=1e3"], "--axis size '1e3' is not a whole number"),
        ([*MATMUL, "--axis", "size=8,"], "--axis size '' is not a whole number"),
        ([*SMOKE, "--dtype", "int8"], "unknown --dtype 'int8'; known: suite, float32"),
        ([*SMOKE, "--device", "tpu"], "unknown --device 'tpu'; known: auto, cpu, cuda"),
        ([*SMOKE, "--threads", "-1"], "--threads -1 is negative"),
        ([*SMOKE, "--threads", "two"], "--threads 'two' is not a whole number"),
        ([*SMOKE, "--samples", "10001"], "--samples 10001 is too many; a result document holds"),
        ([*SMOKE, "--samples", "9999"], f"too many for {ROWS} rows; use {200_000 // ROWS} or"),
        ([*MATMUL, "--axis", "size=8,9,8"], "the row matmul size=8 float32 is requested twice"),
        ([*MATMUL, "--axis", THOUSAND_AND_ONE], "1001 rows don't fit in one result document"),
        ([*SMOKE, "--max-seconds", "x"], "--max-seconds 'x' is not a number; use a number such a"),
        ([*SMOKE, "--precision", "x"], "--precision 'x' is not a number; use a number such as 0"),
        ([*SMOKE, "--run-id", ""], "--run-id is empty"),
        ([*SMOKE, "--target", "t" * 301], "--target has 301 characters; use 300 or fewer"),
        *(
            ([*SMOKE, f"--metrics-namespace={name}"], f"{name!r} is not a valid CloudWatch namesp")
            for name in ("", "  ", "a" * 256, ":a", "Größe", "a\n")
        ),
        ([*SMOKE, "--metrics-namespace=AWS/Batch"], "'AWS/Batch' is reserved for AWS"),
        ([*SMOKE, "--sweet"], "unrecognized arguments: --sweet"),
        ([*SMOKE, "--modes", "mps"], "--modes works only with --suite sharing"),
        ([*MATMUL, "--mps-threads", "5"], "--mps-threads works only with --suite sharing"),
        ([*SHARING, "--replicas", "two"], "--replicas 'two' is not a whole number"),
        ([*SHARING, "--disturbances", "nap"], "unknown --disturbances 'nap'; known: out_of_memory"),
        ([*SHARING, "--form", "vms"], "unknown --form 'vms'; known: processes, jobs, pods"),
        ([*SHARING, "--task", "nope"], "unknown workload 'nope'; known: matmul"),
        ([*SHARING, "--form=jobs", "--modes=mps", "--replicas=2"], "SHARING_FOLDER is not set"),
        (
            [*SCALING, "--batches", "1", "--image", "32"],
            "--batches includes 1, which leaves nothing",
        ),
        ([*SCALING, "--data", "files"], "specify their folder with --files or BATCHMARK_FILES"),
        ([*SCALING, "--warmup-epochs", "91"], "--warmup-epochs is 91, but --epochs is 90: the war"),
        ([*SCALING, "--varied", "colour"], "unknown --varied 'colour'; known: learning_rate, mo"),
        ([*SCALING, "--axis", "batch=1"], "--axis and --samples don't apply to --suite scaling"),
    ],
)
def test_bad_input(arguments, message, tmp_path, capsys):
    assert main(["run", *arguments, "--output", f"{tmp_path}/"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("batchmark-job: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["s3://bucket", "ftp://a/b", "", "/dev/null/result.json"])
@pytest.mark.parametrize("namespace", ["a", "Batchmark", "A b/c-d_e.f#g:h", "a" * 255])
def test_bad_output_after_a_good_namespace(output, namespace, capsys):
    options = [*SMOKE, f"--metrics-namespace={namespace}"]
    assert main(["run", *options, "--output", output]) == 2
    assert capsys.readouterr().err.startswith("batchmark-job: error: --output")


def test_the_environment_adds_options(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AWS_BATCH_JOB_ATTEMPT", "first")
    assert main(["run", *SMOKE, "--output", f"{tmp_path}/"]) == 2
    assert "AWS_BATCH_JOB_ATTEMPT is 'first'" in capsys.readouterr().err
    monkeypatch.setenv("BATCHMARK_OPTIONS", "--suite sharing --replicas '0'")
    assert main(["run"]) == 2
    assert "--replicas 0 is out of range" in capsys.readouterr().err
    monkeypatch.setenv("BATCHMARK_OPTIONS", "--replicas '1")
    assert main(["run"]) == 2
    assert 'BATCHMARK_OPTIONS is "--replicas \'1": No closing' in capsys.readouterr().err
    assert main(["list"]) == 0


@pytest.mark.parametrize("arguments", [[], ["walk"], ["run"], ["show"]])
def test_bad_command(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_takes_its_version_from_options_and_ci(monkeypatch, tmp_path):
    asked = mock.Mock(return_value=0)
    monkeypatch.setattr("batchmark_job.job.run_job", asked)
    monkeypatch.setenv("GITHUB_SHA", "3f2a91c")
    assert main(["run", *SMOKE, "--label", "nightly", f"--output={tmp_path}/"]) == 0
    (settings, _), _ = asked.call_args
    assert (settings.version.commit, settings.version.label) == ("3f2a91c", "nightly")


def python(code):
    """Run code in a process of its own, which has imported nothing yet."""
    return finished(sys.executable, "-c", code, cwd=ROOT / "job_container")


def test_bad_input_is_refused_before_torch_is_imported(tmp_path):
    ended = python(
        "import sys; from batchmark_job.command_line import main\n"
        f"code = main(['run', '--suite', 'smoke', '--output', {str(tmp_path)!r}])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)"
    )
    assert ended.returncode == 2, ended.stderr
    assert "is a folder" in ended.stderr


def test_list_names_everything(capsys):
    assert main(arguments(the_command(".venv/bin/batchmark-job list"))) == 0
    text = capsys.readouterr().out
    for name in ("suite smoke", "suite blog", "suite sam", "workload edge_detection", "opencv"):
        assert name in text
    assert "\n  size: 8 to 65536, required\n  batch: 1 to 65536, default 1\n" in text


def test_schema_is_printed(capsys):
    """As it is exported."""
    result = arguments(the_command(".venv/bin/batchmark-job schema"))
    for words, name, schema in (
        (result, "result", json_schema()),
        (["schema", "metric-line"], "metric-line", metric.json_schema()),
    ):
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out) == schema
        exported = (ROOT / "job_container" / f"{name}.schema.json").read_text()
        assert json.loads(exported) == schema, "run `make schema`"
    assert main(["schema", "metrics"]) == 2
    assert "'result', 'metric-line'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "libraries"),
    [
        (
            "import batchmark_job.job\n"
            "from batchmark_job.machine import inventory\n"
            "from batchmark_job.measuring.processes import answers\n",
            {"torch", "cv2", "threadpoolctl"},
        ),
        (
            "from batchmark_job.suites import NAMES, find_suite\n"
            "assert all(find_suite(name).points() for name in NAMES)\n",
            {"torch", "cv2", "boto3"},
        ),
    ],
    ids=["the process that starts the workers", "grids of the suites"],
)
def test_libraries_of_the_workers_are_not_loaded_for(code, libraries):
    ran = python(f"{code}import sys; print(sorted({libraries} & set(sys.modules)))")
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


@pytest.mark.parametrize(
    "program",
    [
        ("-m", "batchmark_job", "list"),
        ("-c", "from batchmark_job.errors import say; say('measures'); say('goes on')"),
    ],
)
def test_nobody_reads_on(program):
    ours, its = os.pipe()
    os.close(ours)
    with os.fdopen(its, "w") as closed:
        ended = subprocess.run(
            [sys.executable, *program],
            cwd=ROOT / "job_container",
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_without_the_libraries_that_measure_it_says_where_they_come_from(
    tmp_path, monkeypatch, capsys
):
    """As a wheel without its extra."""
    monkeypatch.setitem(sys.modules, "batchmark_job.job", None)
    assert main(["run", *SMOKE, "--output", str(tmp_path / "result.json")]) == 3
    assert "is not installed; install `batchmark-job[run]`" in (capsys.readouterr().err)


GITHUB = {"GITHUB_SHA": "3f2a91c", "GITHUB_REF_NAME": "12/merge", "GITHUB_HEAD_REF": "faster"}


def given(*options, environment=None):
    parser = argparse.ArgumentParser()
    add_options(parser, GivenVersion)
    return given_version(parser.parse_args(options), environment or {})


@pytest.mark.parametrize(
    ("environment", "branch"),
    [
        (GITHUB, "faster"),
        (GITHUB | {"GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main"}, "main"),
        ({"CI_COMMIT_SHA": "3f2a91c", "CI_COMMIT_REF_NAME": "main"}, "main"),
        ({"GIT_COMMIT": "3f2a91c"}, None),
    ],
)
def test_ci_says_commit_and_branch(environment, branch):
    assert given(environment=environment) == GivenVersion(commit="3f2a91c", branch=branch)
    assert given(environment={"GITHUB_SHA": "", "HOME": "/root"}) is None, "nobody says anything"


def test_options_go_before_ci_whose_branch_is_of_its_own_commit():
    options = ("--commit", "8ab0c11", "--label", "baseline")
    assert given(*options, environment=GITHUB) == GivenVersion(commit="8ab0c11", label="baseline")
    assert given("--label", "nightly", environment=GITHUB) == GivenVersion(
        commit="3f2a91c", branch="faster", label="nightly"
    )


def test_what_can_not_be_had_is_refused_of_an_option_and_fails_no_job_of_ci_s():
    with pytest.raises(InputError, match=r"--label: 'a.b' contains .*control.*remove it"):
        given("--label", "a\nb")
    with pytest.raises(InputError, match=r"--branch: .*at most 300 characters"):
        given("--branch", "b" * 301)
    assert given(environment={"GITHUB_SHA": "a\nb" + "x" * 999}).commit.startswith("a\u240ab")


CHILD = node_environment(1, 4)


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """What a job would be run with."""
    taken = []
    monkeypatch.setattr(job, "run_job", lambda settings, _: taken.append(settings) or 0)

    def parsed(*options):
        output = str(tmp_path / "result.json")
        assert command_line.main(["run", "--suite", "scaling", "--output", output, *options]) == 0
        return taken[-1]

    return parsed


def rows(settings):
    return [(point.workload, point.named_parameters) for point in settings.points]


def test_without_options_it_trains_on_synthetic_data_and_reduces_in_float32_as_ever(settings):
    found = settings()
    assert found.node == Node(0, 1)
    place = {"nodes": 1, "devices": 1}
    assert rows(found) == [
        ("resnet50_data_parallel", {**place, "batch": 64, "image": 224, "data": "synthetic"}),
        *(("all_reduce", {**place, "mib": mib}) for mib in (1, 16, 64, 256)),
    ]
    assert found.limits.samples == 50
    found = settings("--dtype", "bfloat16", "--all-reduce-mib", "1")
    assert [(point.workload, point.dtype) for point in found.points] == [
        ("resnet50_data_parallel", "bfloat16"),
        ("all_reduce", "float32"),
    ]


def test_batch_says_how_many_nodes_there_are(settings, monkeypatch):
    for name, value in CHILD.items():
        monkeypatch.setenv(name, value)
    found = settings("--devices", "8", "--batches", "64,16", "--all-reduce-mib", "")
    assert found.node == Node(1, 4, "10.0.0.7", proof=Node.of(CHILD).proof)
    assert [row["batch"] for _, row in rows(found)] == [64, 16]
    assert {(row["nodes"], row["devices"]) for _, row in rows(found)} == {(4, 8)}


def test_files_are_read_first_cold_then_warm_and_then_trained_on(settings, monkeypatch):
    monkeypatch.setenv("BATCHMARK_FILES", "/fsx/images")
    found = settings("--data", "synthetic,files", "--all-reduce-mib", "1")
    assert [(name, row.get("pass"), row.get("data")) for name, row in rows(found)] == [
        ("read_images", "cold", None),
        ("read_images", "warm", None),
        ("resnet50_data_parallel", None, "synthetic"),
        ("resnet50_data_parallel", None, "files"),
        ("all_reduce", None, None),
    ]
    found = settings("--data", "files", "--passes", "warm")  # as all but a run's first job
    assert [row["pass"] for name, row in rows(found) if name == "read_images"] == ["warm"]


def test_settings_are_options_and_varied_ones_tell_rows_apart(settings):
    given = ("--learning-rate", "0.4", "--epochs", "30", "--varied", "learning_rate")
    points = settings("--batches", "64,16", *given).points[:2]
    trained = [point.scaling.measured.settings for point in points]
    rates = [0.4, 0.1]  # of a smaller batch it is smaller
    assert [(each.learning_rate, each.epochs) for each in trained] == [(rate, 30) for rate in rates]
    assert [point.named_parameters["learning_rate"] for point in points] == rates
