"""Airflow reads its configuration at its first import, so it stands here, before any test's."""

import atexit
import functools
import gc
import inspect
import os
import shutil
import tempfile
from pathlib import Path

import botocore.loaders

ROOT = Path(__file__).resolve().parent.parent

# One folder for whatever tests, xdist's workers and killed processes leave behind; it goes with the
# process that made it. pytest's own folders stay where they are looked for after a failure.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="batchmark-tests-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
else:
    # The last that a worker does. To take apart all that it imported would cost 3 s of a core.
    atexit.register(os._exit, 0)

os.environ.update(
    AIRFLOW_HOME=tempfile.mkdtemp(prefix="airflow-"),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT="120",  # on a busy machine imports take longer than 30 s
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="sqlite:////nonexistent/no-test-needs-a-database.db",
    AWS_EC2_METADATA_DISABLED="true",
    BATCHMARK_AIRFLOW_NICE="0",  # or an Airflow would wait for all other tests
    GOGC="200",  # Terraform lives for seconds: to tidy up less often saves a sixth of its work
)

# It has been read; a pytest that a test starts has options of its own.
os.environ.pop("PYTEST_ADDOPTS", None)
# Terraform would complain with each command of a configuration that isn't there.
if not Path(os.environ.get("TF_CLI_CONFIG_FILE", "")).is_file():
    os.environ.pop("TF_CLI_CONFIG_FILE", None)

# All sessions share botocore's models of AWS's services: large files, and tests make many clients.
botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)
# Airflow's AWS hooks go through all callers for a user agent; no test needs their lines of code.
inspect.stack.__defaults__ = (0,)

# What takes longest begins first, so that no worker is left alone with it at the end; but what
# stands on the apply that the first of these makes comes when that may be done.
LONGEST_FIRST = (
    "tests/e2e/test_main_job.py",
    "tests/e2e/test_budget.py",  # the first on the same stack where the main job is left out
    "tests/e2e/test_terraform_examples.py",
    "tests/e2e/aws_check/test_whole.py",
    "tests/e2e/aws_check/test_parts.py",
    "tests/e2e/aws_check/test_killed.py",
    "tests/e2e/test_interrupt.py",  # waits for minutes
    "tests/terraform/test_core_stack.py",
    "tests/e2e/test_terraform_lifecycle.py",
    "tests/faults/test_fault_matrix.py",
)


def pytest_collection():
    """Imports leave nothing to collect, and looking for it takes a tenth of their time."""
    gc.disable()


def pytest_collection_finish():
    """Let garbage collections pass over what was imported: every measured row begins with one."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # or libraries that count their objects at the end would miss some


def pytest_collection_modifyitems(items):
    def rank(item):
        path = item.path.relative_to(ROOT).as_posix()
        return LONGEST_FIRST.index(path) if path in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)
