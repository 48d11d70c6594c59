"""The core stack, applied once in a test session: tests that need it standing begin with a copy.

What the local cloud holds names no port and no folder, so a copy may run anywhere.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from laptop.session import Clock
from laptop.stack import Ports, Stack

CLOUD_STATE = "cloud"
TERRAFORM_STATE = "terraform.tfstate"


def lasting_stack(folder: Path, **options: Any) -> Stack:
    """A stack of which nothing runs yet, and whose local cloud keeps its state in the folder."""
    state = folder / CLOUD_STATE
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Stack(folder, Ports(), Clock().say, cloud_state=state, **options)


def applied_once(temporary: pytest.TempPathFactory) -> Path:
    """The folder of a stopped stack that has been applied; the first worker to ask makes it."""
    session = temporary.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        session = session.parent
    folder = session / "applied"
    with (session / "applied.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = session / "being-applied"
            shutil.rmtree(unfinished, ignore_errors=True)
            with lasting_stack(unfinished) as stack:
                stack.start_cloud()
                stack.apply()
            unfinished.rename(folder)
    return folder


def start_cloud_from(applied: Path, stack: Stack) -> None:
    """Start the local cloud of a `lasting_stack` with a copy of what was applied."""
    shutil.copytree(applied / CLOUD_STATE, stack.folder / CLOUD_STATE, dirs_exist_ok=True)
    shutil.copy(applied / TERRAFORM_STATE, stack.folder)
    stack.start_cloud()


def start_all_from(applied: Callable[[], Path], stack: Stack) -> None:
    """Start the local cloud from a copy, and Airflow beside it, which takes half a minute."""
    with ThreadPoolExecutor(1) as beside:
        airflow = beside.submit(stack.start_airflow)
        start_cloud_from(applied(), stack)
        airflow.result()
