import errno
import os
import sys

import pytest
import torch
from torch import distributed

from batchmark_job.distributed.ranks.rank import LOST_CODE, _is_out_of_memory, explained, main
from batchmark_job.distributed.task import TASK, AllReduce, Answer, RankError, Read
from batchmark_job.errors import CannotMeasureError, InputError
from laptop.processes import free_port
from tests.builders.files import finished
from tests.builders.shards import a_task, write_shards
from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS

REDUCE = AllReduce(device="cuda", size_bytes=2**30, samples=1, max_seconds=1.0, threads=1)


def nccl(kind, last):
    """As torch raises what NCCL says."""
    place = "NCCL error in: /pytorch/ProcessGroupNCCL.cpp:77"
    said = f"{place}, {kind}, NCCL version 2.27.5\nncclError: A call failed\nLast error:\n{last}"
    return distributed.DistBackendError(said)


FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore")
SYSTEM_ERROR = "unhandled system error"
MORE_SHARED = "give the container more (Batch: linuxParameters.sharedMemorySize)"
LOST = "another rank has ended, or did not respond in time"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("a is 1;\n give 2"), 2, "a is 1; give 2"),
        (CannotMeasureError("no GPU"), 3, "no GPU"),
        (
            OSError(errno.ENOSPC, "full", "/fsx/images"),
            1,
            "the file system that holds /fsx/images is",
        ),
        (RuntimeError("unable to allocate shared memory(shm) for file </torch_1>"), 1, MORE_SHARED),
        (
            RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:547] closed by peer"),
            LOST_CODE,
            LOST,
        ),
        (
            RuntimeError("[enforce fail at gloo/transport/tcp/device.cc:84]"),
            1,
            "RuntimeError: [enf",
        ),
        (
            nccl(
                "remote process exited or there was a network error",
                "socketProgress: Connection closed by remote peer 10.0.0.2<1234>",
            ),
            LOST_CODE,
            "NCCL version 2.27.5; socketProgress: Connection closed by remote peer",
        ),
        (
            nccl(SYSTEM_ERROR, "Bootstrap : no socket interface found"),
            1,
            "DistBackendError: NCCL error in: /pytorch/ProcessGroupNCCL.cpp:77, unhandled system "
            "error, NCCL version 2.27.5; Bootstrap : no socket interface found",
        ),
        (
            nccl(SYSTEM_ERROR, "Error while creating shared memory segment /dev/shm/nccl (size 9)"),
            1,
            f"nccl (size 9): NCCL needs more shared memory; {MORE_SHARED}",
        ),
        (distributed.DistNetworkError("failed to listen"), 1, "DistNetworkError: failed to listen"),
        (distributed.DistStoreError("Timed out after 601 seconds waiting"), LOST_CODE, LOST),
        (ValueError("what"), 1, "ValueError: what"),
    ],
)
def test_what_goes_wrong_is_one_line_with_the_fix(error, code, message):
    found, line = explained(error, None)
    assert found == code
    assert message in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            a_task(batch=256, image=224, dtype="bfloat16"),
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.. 256 images of "
            "224 x 224 in bfloat16 don't fit on a device; use a smaller batch",
        ),
        (REDUCE, "A tensor of 1,073,741,824 bytes does not fit on a device; use a smaller tensor"),
    ],
)
def test_what_a_task_needs_too_much_of_is_told(task, message):
    code, line = explained(FULL, task)
    assert code == 1
    assert line.endswith(message)


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (nccl("unhandled cuda error", "Cuda failure 'out of memory'"), True),
        (nccl("unhandled cuda error", "Cuda failure"), False),
        (RuntimeError("unable to allocate shared memory(shm)"), False),
    ],
)
def test_what_does_not_fit_is_told_apart(error, out):
    assert _is_out_of_memory(error) == out


@pytest.fixture
def prepare(tmp_path, monkeypatch, place):
    """Sets what torchrun gives the only rank, and the launcher besides."""

    def set_up(task):
        (tmp_path / "task.json").write_text(TASK.dump_json(task).decode())
        environment = {
            "PYTHONPATH": str(ROOT / "job_container"),
            "BATCHMARK_TASK": str(tmp_path / "task.json"),
            "BATCHMARK_ANSWER": str(tmp_path / "answer.json"),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        place()
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return set_up


def test_rank_0_leaves_one_whole_answer(prepare, tmp_path):
    """As a process of its own, without torchrun."""
    write_shards(tmp_path)
    prepare(Read(device="cpu", folder=tmp_path, cold=True, samples=1, max_seconds=1.0, threads=1))
    ended = finished(
        sys.executable, "-m", "batchmark_job.distributed.ranks.rank", timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    answer = Answer.model_validate_json((tmp_path / "answer.json").read_bytes())
    assert answer.bytes_moved == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert {path.suffix for path in tmp_path.iterdir()} == {".tar", ".json"}


def test_what_fails_is_the_last_line_and_told_to_the_launcher(
    prepare, monkeypatch, tmp_path, capsys
):
    def said_by(task, code):
        prepare(task)
        monkeypatch.setattr(os, "_exit", sys.exit)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err.splitlines()
        assert ended.value.code == code, said
        return said

    said = said_by(a_task(data="files", folder=tmp_path / "away"), 2)
    assert said[-1].startswith("batchmark-job: error: rank 0: the image folder ")
    assert not any("Traceback" in line for line in said)
    assert not (tmp_path / "answer.json").exists()
    # By torch's allocator on the CPU: no machine has an exabyte.
    said_by(REDUCE.model_copy(update={"device": "cpu", "size_bytes": 2**60}), 1)
    left = RankError.model_validate_json((tmp_path / "0.error").read_bytes())
    assert left.out_of_memory
    assert "bytes does not fit on a device; use a smaller tensor" in left.error
