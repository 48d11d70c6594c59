"""Finds the packages that the check needs, and adds missing ones from wheels.

Imports only the standard library, because other packages might not be installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

OF_THE_IMAGE = ("torch", "numpy", "scipy", "cv2")  # too large to carry along
# By import name.
CARRIED = {
    "annotated_types": "annotated-types",
    "boto3": "boto3",
    "botocore": "botocore",
    "dateutil": "python-dateutil",
    "iniconfig": "iniconfig",
    "jmespath": "jmespath",
    "packaging": "packaging",
    "pluggy": "pluggy",
    "psutil": "psutil",
    "pydantic": "pydantic",
    "pydantic_core": "pydantic-core",
    "pygments": "pygments",
    "pynvml": "nvidia-ml-py",
    "pytest": "pytest",
    "s3transfer": "s3transfer",
    "six": "six",
    "threadpoolctl": "threadpoolctl",
    "typing_extensions": "typing-extensions",
    "typing_inspection": "typing-inspection",
    "urllib3": "urllib3",
}


class MissingError(Exception):
    """A required package is missing; the message says how to get it, or why pip failed."""


def bring(wheels: Path, into: Path) -> None:
    """If any package is missing, unpack and use all wheels, because they were locked together.

    Args:
        wheels: folder with wheels for this version of Python.
        into: folder to unpack them into; this process and its children import from it.

    Raises:
        MissingError: a package is neither installed nor among the wheels, or pip failed.
    """
    if lacking := missing(OF_THE_IMAGE):
        raise MissingError(
            f"{sys.executable} lacks {', '.join(lacking)}: use an image that has all required "
            "packages, or choose another Python with PYTHON=..."
        )
    lacking = missing(CARRIED)
    if lacking and wheels.is_dir():
        _unpack(wheels, into)
        import_from(into)
        lacking = missing(CARRIED)
    if lacking:
        version = ".".join(map(str, sys.version_info[:2]))
        raise MissingError(
            f"{sys.executable} lacks {', '.join(lacking)}, and {wheels} contains no wheels for "
            f"them: run `make gpu-wheels FOR={version}` on a machine with internet "
            "access, and copy that folder here"
        )


def missing(modules: Iterable[str]) -> list[str]:
    return [name for name in modules if importlib.util.find_spec(name) is None]


def import_from(*folders: Path) -> None:
    """Make this process and its children import from these folders before the interpreter's own."""
    names = [str(folder) for folder in folders]
    sys.path[:0] = names
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*names, path)))
    importlib.invalidate_caches()


def _unpack(wheels: Path, into: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--upgrade"]
    finished = subprocess.run(
        [*pip, "--find-links", str(wheels), "--target", str(into), *CARRIED.values()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise MissingError(f"pip could not unpack {wheels}: {finished.stderr.strip()}")
