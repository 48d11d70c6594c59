"""Who may import whom: the table of docs/architecture.md, kept by this test."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# folder -> modules that nothing below it may import
FORBIDDEN = {
    "job_container": {"airflow", "batchmark", "moto", "local_cloud", "laptop"},
    "plugins": {"torch", "moto", "local_cloud", "laptop"},
    "dags": {"torch", "numpy", "boto3", "moto", "batchmark_job", "local_cloud", "laptop"},
    "local_cloud": {"airflow", "batchmark", "batchmark_job", "laptop"},
    "laptop": {"airflow", "torch", "moto", "local_cloud"},
}
RUNS_IN_AIRFLOW = ROOT / "laptop" / "airflow_settings"
PURE = (
    "alerts/board",
    "alerts/delivering",
    "alerts/merging",
    "alerts/message",
    "alerts/outbox",
    "alerts/precision",
    "alerts/quiet_hours",
    "alerts/records",
    "alerts/sns_limits",
    "alerts/store",
    "alerts/terminal",
    "attribution",
    "break_even",
    "budget",
    "calibration",
    "change_records",
    "change_search",
    "change_words",
    "changes_page",
    "changes_section",
    "changes_terminal",
    "circumstances",
    "comparison",
    "cost",
    "cost_terminal",
    "crossover",
    "diagnosis/__init__",
    "diagnosis/image",
    "diagnosis/instances",
    "diagnosis/network",
    "diagnosis/page",
    "diagnosis/queue",
    "diagnosis/quota",
    "diagnosis/records",
    "diagnosis/subject",
    "estimate",
    "figures",
    "fingerprint",
    "history/columns",
    "history/exports/asv",
    "history/exports/bencher",
    "history/exports/csv",
    "history/exports/runs",
    "history/imports/asv",
    "history/imports/file",
    "history/imports/github_action_benchmark",
    "history/imports/measurement",
    "history/imports/pytest_benchmark",
    "history/imports/units",
    "history/parquet",
    "history/rows",
    "history/series",
    "ledger",
    "noise",
    "noise_density",
    "pooling",
    "prices",
    "rates",
    "record",
    "recoveries",
    "regressions",
    "replay",
    "report",
    "report_page",
    "report_terminal",
    "report_words",
    "roofline",
    "self_test",
    "self_test_page",
    "self_test_records",
    "self_test_words",
    "series",
    "series_history",
    "significance",
    "spending",
    "suspects",
    "verdict",
)


def imports(path: Path) -> set[str]:
    """Every module that a file names in an import, wherever it stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def files(folder: str) -> list[Path]:
    found = (ROOT / folder).rglob("*.py")
    return sorted(path for path in found if path.parent != RUNS_IN_AIRFLOW)


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_folder_imports_nothing_forbidden(folder):
    assert files(folder)
    wrong = {
        str(path.relative_to(ROOT)): seen
        for path in files(folder)
        if (seen := tops(path) & FORBIDDEN[folder])
    }
    assert wrong == {}


def test_plugins_know_the_job_by_its_result_only():
    for path in files("plugins"):
        seen = {name for name in imports(path) if name.startswith("batchmark_job")}
        assert all(name.startswith("batchmark_job.result") for name in seen), path


def test_only_one_module_drives_terraform():
    users = [path.name for path in files("plugins") if "python_terraform" in tops(path)]
    assert users == ["terraform.py"]


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_know_neither_airflow_nor_aws(module):
    path = ROOT / "plugins" / "batchmark" / f"{module}.py"
    assert not tops(path) & {"airflow", "boto3"}


def test_the_check_sees_an_import_inside_a_function(tmp_path):
    source = tmp_path / "sly.py"
    source.write_text("def f():\n    from moto.server import main\n")
    assert tops(source) == {"moto"}
