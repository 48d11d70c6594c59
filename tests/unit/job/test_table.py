"""The table of a result document."""

import pytest

from batchmark_job.command_line import main
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.result.version import GivenVersion
from batchmark_job.table import lines
from tests.builders.runs import GPU_ENVIRONMENT, build_job, build_row

LONG = {"sequence": 128, "heads": 8, "head_dim": 64, "batch": 1}


def document_of(*rows, **values):
    return build_job("c5.2xlarge", rows, **values).document


def test_a_row_has_its_name_code_and_figures_within_80_columns():
    several, few = build_row([1.0, 2.0, 3.0, 4.0, 5.0]), build_row([1.0, 2.0])
    one = build_row([0.001], workload="attention_backward", parameters=LONG)
    shown = list(lines(document_of(several, one)))
    assert max(map(len, shown)) <= 80
    assert "matmul size=1000 float32" in shown
    assert "attention_backward sequence=128 heads=8 head_dim=64 batch=1 float32" in shown
    assert [line.split() for line in shown if line.startswith("  torch")] == [
        ["torch", "3", "s", "2", "s", "to", "4", "s", "5"],
        ["torch", "1", "ms", "1", "ms", "to", "1", "ms", "1"],
    ]
    assert any(line.startswith("  torch") for line in lines(document_of(few)))


def test_what_was_not_measured_is_said_once_with_its_reason():
    skipped = {"status": MeasurementStatus.SKIPPED, "reason": "needs 9 GiB"}
    rows = [build_row(parameters={"size": size}, **skipped) for size in (1, 2)]
    shown = list(lines(document_of(build_row([1.0]), *rows)))
    assert shown[-1] == "2 of 3 rows skipped: needs 9 GiB"


@pytest.mark.parametrize("status", [MeasurementStatus.FAILED, MeasurementStatus.SKIPPED])
def test_without_any_figure_the_job_is_not_called_complete(status):
    rows = [build_row(parameters={"size": n}, status=status, reason="no") for n in (1, 2)]
    first, *others = lines(document_of(*rows))
    assert ", NOTHING MEASURED, " in first
    assert others[1:] == ["", f"2 of 2 rows {status}: no"]
    interrupted, *_ = lines(document_of(*rows, status="interrupted"))
    assert ", interrupted, " in interrupted


def test_the_machine_is_named_and_a_missing_gpu_first():
    on_gpu = document_of(
        build_row([1.0]), environment=GPU_ENVIRONMENT, actual_device="cuda", suite="blog"
    )
    first, second, *_ = lines(on_gpu)
    assert first.startswith("suite blog on cuda, 4 threads, complete")
    assert second == "NVIDIA A10G"
    version = GivenVersion(commit="3f2a91c", label="nightly")
    given = list(lines(on_gpu.model_copy(update={"version": version})))
    assert given[2:4] == ["commit 3f2a91c", "label nightly"], "what was measured is below it"
    fell_back = document_of(build_row([1.0])).model_copy(update={"requested_device": "cuda"})
    assert list(lines(fell_back))[2].startswith("NOT A GPU MEASUREMENT")


def test_show_prints_a_document_and_refuses_what_is_none(tmp_path, capsys):
    file = tmp_path / "result.json"
    file.write_text(document_of(build_row([1.0])).to_json())
    assert main(["show", str(file)]) == 0
    assert "matmul size=1000 float32" in capsys.readouterr().out
    file.write_text("{}")
    for name, says in (
        (file, f"{file}: not a result document: it has no"),
        (tmp_path / "no.json", "can't be read"),
    ):
        assert main(["show", str(name)]) == 2
        assert says in capsys.readouterr().err
