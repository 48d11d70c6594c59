"""Runs tests on a copy of the tree, each time in a process forked from one that is warm.

The process has imported what is slow and no part of the product. A fork takes the copy's modules
and tests, so that a mutant, which is a file of the copy, is in force in its subprocesses, too.
"""

from __future__ import annotations

import ast
import builtins
import compileall
import contextlib
import gc
import hashlib
import importlib
import json
import os
import py_compile
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutation.mutants import Mutant, functions_of, mutated

PASSED, NONE_LEFT = 0, 5  # pytest's exit codes
SLOW_IMPORTS = (
    "airflow.dag_processing.dagbag",
    "airflow.providers.amazon.aws.operators.batch",
    "airflow.providers.amazon.aws.triggers.batch",
    "airflow.providers.apprise.hooks.apprise",
    "airflow.sdk",
    "aiobotocore.session",
    "boto3",
    "cv2",
    "docker",
    "httpx",
    "moto.server",
    "pyarrow.parquet",
    "rich.console",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.stats",
    "torch",
)
SOURCE_ROOTS = ("", "plugins", "job_container")
REACHED = "batchmark_functions_reached"  # attribute of builtins: instrumented modules add to it


class Copy:
    """A copy of the tree, in which files may be changed."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        (folder / ".venv").symlink_to(sys.prefix)
        # Compiled files that are told apart by content: by time and size, mutants may look alike.
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        for top in ("plugins", "job_container", "local_cloud", "laptop"):
            compileall.compile_dir(folder / top, quiet=2, force=True, invalidation_mode=mode)

    def tests(self) -> dict[str, str]:
        """The files of unit tests, each with a digest of it and of all that it may import."""
        names = [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.py")]
        files = sorted(
            name for name in names if name.startswith("tests/unit/") and "/test_" in name
        )
        shared = hashlib.sha256()
        for name in sorted(set(names) - set(files)):
            shared.update(f"{name}\0".encode() + (self.folder / name).read_bytes())
        digests = {}
        for name in files:
            digest = shared.copy()
            digest.update((self.folder / name).read_bytes())
            digests[name] = digest.hexdigest()
        return digests

    @contextlib.contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.path
        source = path.read_text()
        path.write_text(mutated(source, mutant))
        try:
            yield
        finally:
            path.write_text(source)

    @contextlib.contextmanager
    def instrumented(self, mutants: Sequence[Mutant]) -> Iterator[None]:
        """Let the mutants' functions note that they are called."""
        sources = {}
        for path in {mutant.path for mutant in mutants}:
            sources[path] = source = (self.folder / path).read_text()
            tree = ast.parse(source)
            (module,) = {mutant.module for mutant in mutants if mutant.path == path}
            names = {mutant.function for mutant in mutants}
            for name, function in functions_of(tree, module):
                if name in names:
                    calls = f"__import__('builtins').__dict__.setdefault({REACHED!r}, set())"
                    place = 1 if ast.get_docstring(function, clean=False) is not None else 0
                    function.body[place:place] = ast.parse(f"{calls}.add({name!r})").body
            (self.folder / path).write_text(ast.unparse(ast.fix_missing_locations(tree)))
        try:
            yield
        finally:
            for path, source in sources.items():
                (self.folder / path).write_text(source)


class Recorder:
    """A pytest plugin that notes which functions each test reaches, and how long it takes."""

    def __init__(self) -> None:
        self.tests: dict[str, Any] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        reached: set[str] = builtins.__dict__.setdefault(REACHED, set())
        reached.clear()
        began = time.perf_counter()
        result = yield
        self.tests[item.nodeid] = {
            "seconds": time.perf_counter() - began,
            "reached": sorted(reached),
        }
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


class Selection:
    """A pytest plugin that runs the tests given, in their order, and no others."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.place = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.place]
        items.sort(key=lambda item: self.place[item.nodeid])


def warm_up(root: Path) -> dict[str, Any]:
    """Import what is slow; what is returned has to be kept as long as forks need it."""
    kept = runpy.run_path(str(root / "tests" / "conftest.py"))  # settings, before Airflow's import
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    gc.freeze()  # no fork goes through all of this again
    return kept


def record(copy: Copy, file: str, limit: float) -> dict[str, Any]:
    """Run a file of tests; what its Recorder noted."""
    answer = copy.folder / "recorded.json"
    answer.unlink(missing_ok=True)
    recorder = Recorder()

    def run() -> int:
        code = _pytest([file], recorder)
        answer.write_text(json.dumps({"tests": recorder.tests, "failed": recorder.failed}))
        return code

    code = _fork(run, copy, limit)
    result = json.loads(answer.read_text()) if answer.exists() else {"tests": {}, "failed": []}
    if code not in {PASSED, NONE_LEFT} and not result["failed"]:
        result["failed"] = [f"{file} (exit code {code}; None: not in time)"]
    return dict(result)


def passes(copy: Copy, tests: Sequence[str], limit: float) -> bool:
    """Whether all of these tests pass in time."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    code = _fork(lambda: _pytest(list(files), Selection(tests), "-x"), copy, limit)
    return code in {PASSED, NONE_LEFT}


def _pytest(files: Sequence[str], plugin: object, *options: str) -> int:
    without = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "anyio")]
    # Modules that are imported already make pytest warn that it can't rewrite their asserts.
    warmed = "-Wignore::pytest.PytestAssertRewriteWarning"
    return int(pytest.main(["-q", warmed, *without, *options, *files], [plugin]))


def _fork(run: Any, copy: Copy, limit: float) -> int | None:
    """The exit code of a function in a fork, within the copy; None where it took too long."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _enter(copy)
        code = 70
        try:
            code = run()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    try:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def _enter(copy: Copy) -> None:
    """In the fork: a group of its own, its output in a file, and the copy in the tree's place."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
    output = os.open(copy.folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(copy.folder)
    theirs = {"", *(str(copy.root / source) for source in SOURCE_ROOTS)}
    ours = [str(copy.folder / source) for source in SOURCE_ROOTS]
    sys.path[:] = [*ours, *(path for path in sys.path if path not in theirs)]
    temporary = copy.folder / "build" / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    tempfile.tempdir = str(temporary)
    os.environ |= {"PYTHONPATH": os.pathsep.join(ours), "TMPDIR": tempfile.tempdir}
    for name in list(sys.modules):
        if name.partition(".")[0] in {"benchmarks", "tests"}:
            del sys.modules[name]
    importlib.invalidate_caches()
