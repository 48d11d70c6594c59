"""Downloads locked versions of the wheels that gpu-check needs on machines without a network."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu_check.packages import CARRIED

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "gpu-wheels"
LOCKS = (ROOT / "requirements.txt", ROOT / "requirements-dev.txt")
PLATFORMS = [f"manylinux_2_{glibc}_x86_64" for glibc in (34, 28, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="Python version on the target machine, such as 3.12")
    version = parser.parse_args().python
    pins = [_pin(name) for name in CARRIED.values()]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    finished = subprocess.run(
        [*pip, "--python-version", version, *platforms, "--dest", str(FOLDER), *pins], check=False
    )
    if finished.returncode:
        print(
            f"gpu-wheels: pip could not download wheels for Python {version}; see its output above",
            file=sys.stderr,
        )
        return 1
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"{len(pins)} wheels for Python {version} in {FOLDER}: {size / 1e6:.0f} MB")
    return 0


def _pin(name: str) -> str:
    for lock in LOCKS:
        if found := re.search(rf"^{re.escape(name)}==[\w.]+", lock.read_text(), re.MULTILINE):
            return found.group()
    raise SystemExit(f"gpu-wheels: no lock file contains {name}")


if __name__ == "__main__":
    sys.exit(main())
