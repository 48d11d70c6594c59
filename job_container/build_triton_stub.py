"""Compiles Triton's driver stub: python build_triton_stub.py FOLDER

Otherwise Triton compiles it at its first launch, which needs a C compiler. FOLDER becomes a Triton
cache that holds only the stub, under Triton's own key: its C source and the platform. Neither a GPU
nor a driver is needed: the stub is linked against a fake library with libcuda's names.
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
            raise SystemExit(
                f"Triton compiled {len(stubs)} stubs into {folder}, but 1 was expected: {stubs}"
            )
        # Must be found now, not compiled again.
        load({**environment, "CC": "/no/compiler"})
        needed = subprocess.run(
            ["objdump", "-p", str(stubs[0])], check=True, capture_output=True, text=True
        ).stdout
        if "libcuda.so.1" not in needed:
            raise SystemExit(
                f"{stubs[0]} is not linked against libcuda.so.1; objdump printed: {needed}"
            )
    print(f"compiled {stubs[0]}")


def load(environment: dict[str, str]) -> None:
    """Load Triton in a new process, as Triton and the dynamic loader read settings at startup."""
    subprocess.run([sys.executable, "-c", LOAD], env=environment, check=True)


def build_libcuda(folder: Path) -> None:
    """Build a library with the driver's file name and every symbol in Triton's copy of cuda.h."""
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
