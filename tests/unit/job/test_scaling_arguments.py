"""The options of the suite `scaling`."""

import pytest

from batchmark_job import command_line, job
from batchmark_job.distributed.node import Node
from tests.stand_ins.nodes import node_environment

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


def test_without_options_it_trains_on_synthetic_data_and_reduces(settings):
    found = settings()
    assert found.node == Node(0, 1)
    place = {"nodes": 1, "devices": 1}
    assert rows(found) == [
        ("resnet50_data_parallel", {**place, "batch": 64, "image": 224, "data": "synthetic"}),
        *(("all_reduce", {**place, "mib": mib}) for mib in (1, 16, 64, 256)),
    ]
    assert found.limits.samples == 50


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


def test_only_what_trains_has_the_dtype_asked_for(settings):
    found = settings("--dtype", "bfloat16", "--all-reduce-mib", "1")
    assert [(point.workload, point.dtype) for point in found.points] == [
        ("resnet50_data_parallel", "bfloat16"),
        ("all_reduce", "float32"),
    ]


def test_settings_are_options_and_varied_ones_tell_rows_apart(settings):
    given = ("--learning-rate", "0.4", "--epochs", "30", "--varied", "learning_rate")
    points = settings("--batches", "64,16", *given).points[:2]
    trained = [point.scaling.measured.settings for point in points]
    rates = [0.4, 0.1]  # of a smaller batch it is smaller
    assert [(each.learning_rate, each.epochs) for each in trained] == [(rate, 30) for rate in rates]
    assert [point.named_parameters["learning_rate"] for point in points] == rates


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--batches", "1", "--image", "32"], "--batches includes 1, which leaves nothing to nor"),
        (["--data", "files"], "specify their folder with --files or BATCHMARK_FILES"),
        (["--warmup-epochs", "91"], "--warmup-epochs is 91, but --epochs is 90: the warm-up can't"),
        (["--varied", "colour"], "unknown --varied 'colour'; known: learning_rate, momentum,"),
        (["--axis", "batch=1"], "--axis and --samples don't apply to --suite scaling"),
    ],
)
def test_what_can_not_be_had_is_refused_at_once(options, reason, capsys):
    assert command_line.main(["run", "--suite", "scaling", *options]) == 2
    assert reason in capsys.readouterr().err
