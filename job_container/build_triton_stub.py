"""Compiles the stub through which Triton talks to the driver: python build_triton_stub.py FOLDER

Triton does it at its first launch otherwise, and needs a C compiler for that. FOLDER becomes a
Triton cache that holds the stub alone, under Triton's own key: its C source and the platform.
Neither a GPU nor a driver is needed: the stub is linked to a stand-in with libcuda's names.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOAD = "from triton.backends.nvidia.driver import CudaUtils; CudaUtils()"


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as libraries:
        build_libcuda(Path(libraries))
        environment = os.environ | {
            "LD_LIBRARY_PATH": libraries,
            "TRITON_CACHE_DIR": str(folder),
            "TRITON_LIBCUDA_PATH": libraries,
        }
        load(environment)
        stubs = list(folder.glob("*/*.so"))
        if len(stubs) != 1:
            raise SystemExit(f"Triton compiled {len(stubs)} stubs, not 1, into {folder}: {stubs}")
        # Found again, and not compiled anew.
        load({**environment, "CC": "/no/compiler"})
        needed = subprocess.run(
            ["objdump", "-p", str(stubs[0])], check=True, capture_output=True, text=True
        ).stdout
        if "libcuda.so.1" not in needed:
            raise SystemExit(f"{stubs[0]} does not load libcuda.so.1: {needed}")
    print(f"compiled {stubs[0]}")


def load(environment: dict[str, str]) -> None:
    """In a process of its own: Triton and the dynamic loader read their settings at its start."""
    subprocess.run([sys.executable, "-c", LOAD], env=environment, check=True)


def build_libcuda(folder: Path) -> None:
    """A library with the driver's file name and every name in Triton's copy of cuda.h."""
    triton = importlib.util.find_spec("triton")
    if triton is None or triton.origin is None:
        raise SystemExit("triton is not installed")
    header = Path(triton.origin).parent / "backends" / "nvidia" / "include" / "cuda.h"
    names = sorted(set(re.findall(r"\bcu[A-Z]\w*", header.read_text())))
    source = folder / "libcuda.c"
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
    library = "libcuda.so.1"
    subprocess.run(
        ["gcc", "-shared", f"-Wl,-soname,{library}", "-o", folder / library, source], check=True
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
