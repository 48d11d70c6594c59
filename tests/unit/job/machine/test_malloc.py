"""Page faults of calls that free their output, in a process of their own."""

import platform
import subprocess
import sys

import pytest

FAULTS_OF_CALLS = """
import ctypes, resource
from batchmark_job.machine import malloc

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def call():
    output = libc.malloc(SIZE)
    libc.memset(output, 1, SIZE)
    libc.free(output)

def faults():
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
malloc.keep_freed_memory()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_what_a_call_frees_the_next_one_finds():
    size = 64 * 2**20
    script = FAULTS_OF_CALLS.replace("SIZE", str(size))
    ended = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    anew, kept = map(int, ended.stdout.split())
    assert anew >= 10 * size / (2 * 2**20)  # at least one for each huge page
    assert kept < 10
