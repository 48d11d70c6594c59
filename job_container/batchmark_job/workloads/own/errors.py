"""Finds the line in a user's own file that raised an error, and gives a hint for fixing it."""

from __future__ import annotations

import traceback
from pathlib import Path

from batchmark_job.workloads.own.files import MODULE_PREFIX
from batchmark_job.workloads.own.implementations import NUMPY_CODE


def where_raised(error: BaseException) -> str:
    """Return the file, line and any hint, or an empty string if no user's file raised the error."""
    frames = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(MODULE_PREFIX)
    ]
    if not frames:
        return ""
    code, line = frames[-1]
    text = f" ({Path(code.co_filename).name}, line {line})"
    hint = _hint(error, {code.co_name for code, _ in frames})
    return f"{text} ({hint})" if hint else text


def _hint(error: BaseException, functions: set[str]) -> str | None:
    """Return a hint about the usual cause of this error in any of these functions, or None."""
    if isinstance(error, ModuleNotFoundError):
        return "install it where the job runs; see own_workloads/README.md"
    if "step" in functions and isinstance(error, TypeError | AttributeError):
        return f"step receives torch tensors; {NUMPY_CODE}"
    if isinstance(error, TypeError) and "Cannot interpret 'torch." in str(error):
        return "dtype is a torch dtype: don't pass it to NumPy; the job converts the arrays"
    return None
