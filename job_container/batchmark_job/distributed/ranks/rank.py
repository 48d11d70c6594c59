"""The program that torchrun starts for each rank of a distributed row.

It reads its task from the file named by BATCHMARK_TASK. Rank 0 writes its answer to the file named
by BATCHMARK_ANSWER. An error is printed as the last line on stderr.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from batchmark_job.distributed.task import (
    ANSWER_VARIABLE,
    ERROR_SUFFIX,
    TASK,
    TASK_VARIABLE,
    AllReduce,
    Answer,
    RankError,
    Read,
    Train,
)
from batchmark_job.errors import InputError, JobError, one_line
from batchmark_job.interruption import STOP_SIGNALS
from batchmark_job.output import FileOutput

# What gloo, NCCL and the store report when another rank is silent or closed its connection.
LOST = re.compile(
    r"tim(?:e|ed)[ -]?out|connection (?:was likely )?closed|closed by peer|reset by peer"
    r"|connection refused|broken pipe|got 0 bytes|ncclRemoteError",
    re.IGNORECASE,
)
LOST_CODE = 5  # failed because another rank is gone, whose own last line tells why


def main() -> int:
    # The job blocks these signals for its own thread; torchrun ends ranks with them.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    task = None
    try:
        task = read_task()
        answer = perform(task)
        if os.environ.get("RANK") == "0":
            file = FileOutput(Path(_from_environment(ANSWER_VARIABLE)))
            file.write(answer.model_dump_json())
    except Exception as error:
        if not isinstance(error, JobError):
            traceback.print_exc()
        _end(*explained(error, task), out_of_memory=_is_out_of_memory(error))
    return 0


def read_task() -> Train | AllReduce | Read:
    path = Path(_from_environment(TASK_VARIABLE))
    try:
        return TASK.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{TASK_VARIABLE} names {path}, which can't be read: {error.strerror}"
        ) from None
    except ValidationError as error:
        raise InputError(
            f"{TASK_VARIABLE} names {path}, which is not a valid task: {error}"
        ) from None


def perform(task: Train | AllReduce | Read) -> Answer:
    # Imported late: each loads libraries for seconds that the other tasks don't need.
    if isinstance(task, Train):
        from batchmark_job.distributed.ranks.training import train

        return train(task)
    if isinstance(task, AllReduce):
        from batchmark_job.distributed.ranks.all_reduce import all_reduce

        return all_reduce(task)
    from batchmark_job.distributed.ranks.reading import read

    return read(task)


def explained(error: Exception, task: Train | AllReduce | Read | None) -> tuple[int, str]:
    """Return the exit code, and one line saying what went wrong and, if known, how to fix it."""
    if isinstance(error, JobError):
        return error.exit_code, " ".join(str(error).split())
    line = _line(error)
    if _is_out_of_memory(error):
        return 1, f"{line}. {_smaller(task)}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return 1, (
            f"{line}: the file system that holds {error.filename or 'a file'} is full; free some "
            "space, or create a larger file system"
        )
    if _of_exchange(error) and LOST.search(str(error)):
        return LOST_CODE, f"another rank has ended, or did not respond in time: {line}"
    if "shared memory" in str(error):
        who = "NCCL needs" if _of_exchange(error) else "the loader's processes need"
        return 1, (
            f"{line}: {who} more shared memory; give the container more (Batch: "
            "linuxParameters.sharedMemorySize), or use a smaller batch"
        )
    return 1, line


def _line(error: Exception) -> str:
    """Return the error on one line, including the reason that NCCL gives on a later line."""
    _, _, reason = str(error).partition("Last error:")
    return "; ".join([one_line(error), *reason.strip().splitlines()[:1]])


def _is_out_of_memory(error: Exception) -> bool:
    if _of_exchange(error):
        return "out of memory" in str(error)
    allocator = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return allocator or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _smaller(task: Train | AllReduce | Read | None) -> str:
    if isinstance(task, Train):
        return (
            f"{task.batch} images of {task.image} x {task.image} in {task.dtype} don't fit on a "
            "device; use a smaller batch"
        )
    if isinstance(task, AllReduce):
        return (
            f"A tensor of {task.size_bytes:,} bytes does not fit on a device; use a smaller tensor"
        )
    return "Use a machine with more memory"


def _of_exchange(error: Exception) -> bool:
    """Return whether communication between ranks caused the error; gloo raises RuntimeErrors."""
    torch_distributed = sys.modules.get("torch.distributed")
    if torch_distributed is not None and isinstance(error, torch_distributed.DistError):
        return True
    return isinstance(error, RuntimeError) and "gloo" in str(error)


def _from_environment(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise InputError(
            f"{variable} is not set; start this program with torchrun, as the job does"
        )
    return value


def _end(code: int, message: str, *, out_of_memory: bool) -> NoReturn:
    """Report the error and exit; torch's own shutdown might wait for ranks that have ended."""
    rank = os.environ.get("RANK", "?")
    sys.stdout.flush()
    with contextlib.suppress(OSError, JobError, ValueError):
        # For the launcher, which has to find out which rank failed first.
        error = RankError(
            at=time.time(),
            rank=int(rank),
            error=message,
            lost_another=code == LOST_CODE,
            out_of_memory=out_of_memory,
        )
        answer = Path(_from_environment(ANSWER_VARIABLE))
        answer.with_name(f"{rank}{ERROR_SUFFIX}").write_text(error.model_dump_json())
    print(f"batchmark-job: error: rank {rank}: {message}", file=sys.stderr, flush=True)
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
