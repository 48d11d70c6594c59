"""The Triton kernels as compiled for GPUs that need not be there.

Run as a program this module compiles them: in the tests' own process they are interpreted.
"""

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from batchmark_job.workloads import gaussian_blur
from batchmark_job.workloads.support import triton_filters
from batchmark_job.workloads.support.triton_filters import TritonBlur

# By its name, what else a kernel knows when it is compiled.
KERNELS = {"blur": {"taps": TritonBlur(gaussian_blur._taps()).taps}, "sobel": {}}
# What its loop hands on from row to row: rows loaded ahead; and sums of 14 output rows that are not
# complete, or differences and smoothed values of the last two rows.
CARRIED = {"blur": 3 + 14, "sobel": 3 + 4}
# Of a lane, at most: with 128 a multiprocessor holds the 8 programs of triton_filters.PROGRAMS, and
# a B200 takes 136.
REGISTERS = {"blur": {4: 136, 2: 208}, "sobel": {4: 72, 2: 104}}
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
TARGETS = [("float32", capability) for capability in (75, 80, 86, 89, 90, 100)]
TARGETS += [("float16", 75), ("bfloat16", 90)]
# Triton's names of the types, for a compilation without tensors.
POINTERS = {"float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16"}


def compile_kernels():
    """Compile for GPUs that need not be there; returns what each binary is made of."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile  # noqa: A004

    from batchmark_job.workloads.support import triton_kernels

    found = []
    for name, (dtype, capability) in itertools.product(KERNELS, TARGETS):
        kernel = getattr(triton_kernels, name)
        vector = triton_filters.VECTOR_BYTES // BYTES[dtype]
        constants = {"lanes": triton_filters.LANES, "vector": vector, **KERNELS[name]}
        aligned = {
            (kernel.arg_names.index(argument),): [["tt.divisibility", 16]]
            for argument in ("source", "target", "width")
        }
        signature = {
            argument: "constexpr" if argument in constants else "i32"
            for argument in kernel.arg_names
        } | dict.fromkeys(("source", "target"), POINTERS[dtype])
        compiled = compile(
            ASTSource(kernel, signature, constexprs=constants, attrs=aligned),
            target=GPUTarget("cuda", capability, 32),
            options={"num_warps": triton_filters.WARPS},
        )
        found.append(
            {
                "name": name,
                "dtype": dtype,
                "capability": capability,
                "carried": [
                    values.count(" = ")
                    for values in re.findall(
                        r"scf\.for .*?iter_args\((.*?)\)", compiled.asm["ttir"]
                    )
                ],
                "registers": compiled_registers(compiled.asm["cubin"]),
                "cubin_bytes": len(compiled.asm["cubin"]),
                "layout_conversions": compiled.asm["ttgir"].count("convert_layout"),
                "whole_vector_loads": compiled.asm["ptx"].count(".v4.b32"),
                "shared_bytes": compiled.metadata.shared,
            }
        )
    return found


def compiled_registers(cubin):
    """Of a thread, by what comes with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    return int(re.search(r"REG:(\d+)", usage.stdout + usage.stderr).group(1))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_kernels_compile_to_few_registers_only_and_keep_their_values_apart(tmp_path):
    finished = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert len(found) == len(KERNELS) * len(TARGETS)
    for binary in found:
        assert binary["cubin_bytes"] > 0
        assert binary["layout_conversions"] == binary["shared_bytes"] == 0
        assert binary["whole_vector_loads"] > 0
        # Both branches' loops: one within the image, one that reflects its columns.
        assert binary["carried"] == [CARRIED[binary["name"]]] * 2
        most = REGISTERS[binary["name"]][BYTES[binary["dtype"]]]
        assert binary["registers"] <= most, binary


if __name__ == "__main__":
    print(json.dumps(compile_kernels()))
