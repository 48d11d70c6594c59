"""The core stack, applied once: tests that need it standing begin with a copy.

It is kept in build/ for as long as nothing that it is made of changes. What the local cloud holds
names no port and no folder, so a copy may run anywhere.
"""

import fcntl
import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from laptop.session import Clock
from laptop.stack import BUILD, ROOT, Ports, Stack
from tests.lean_stack import LeanStack

CLOUD_STATE = "cloud"
TERRAFORM_STATE = "terraform.tfstate"
KEPT = BUILD / "applied"
# What is applied, to what, and how.
MADE_OF = (
    "terraform/**/*",
    "local_cloud/**/*.py",
    "laptop/*.py",
    "requirements.txt",
    "tests/applied.py",
)


def lasting_stack(folder: Path, kind: type[Stack] = LeanStack, **options: Any) -> Stack:
    """A stack of which nothing runs yet, and whose local cloud keeps its state in the folder."""
    state = folder / CLOUD_STATE
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return kind(folder, Ports(), Clock().say, cloud_state=state, **options)


def applied_once() -> Path:
    """The folder of a stopped stack that has been applied; the first process to ask makes it."""
    folder = KEPT / digest()
    KEPT.mkdir(parents=True, exist_ok=True)
    with KEPT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for older in KEPT.iterdir():
                shutil.rmtree(older)
            unfinished = KEPT / "being-applied"
            with lasting_stack(unfinished, Stack) as stack:
                stack.start_cloud()
                stack.apply()
            unfinished.rename(folder)
    return folder


def digest() -> str:
    found = hashlib.sha256()
    for path in sorted(path for pattern in MADE_OF for path in ROOT.glob(pattern)):
        if path.is_file() and ".terraform" not in path.parts:
            content = path.read_bytes()
            found.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return found.hexdigest()[:16]


def start_cloud_from(applied: Path, stack: Stack) -> None:
    """Start the local cloud of a `lasting_stack` with a copy of what was applied."""
    shutil.copytree(applied / CLOUD_STATE, stack.folder / CLOUD_STATE, dirs_exist_ok=True)
    shutil.copy(applied / TERRAFORM_STATE, stack.folder)
    stack.start_cloud()


def start_all_from_applied(stack: Stack) -> None:
    """Start the local cloud from a copy, and Airflow beside it, which takes half a minute."""
    with ThreadPoolExecutor(1) as beside:
        airflow = beside.submit(stack.start_airflow)
        start_cloud_from(applied_once(), stack)
        airflow.result()
