"""What an error's one line adds where a user's own file raised it."""

from __future__ import annotations

import traceback
from pathlib import Path

from batchmark_job.workloads.user_files import MODULE_PREFIX, NUMPY_CODE


def where_raised(error: BaseException) -> str:
    """File and line, and what is often wrong in `step`; empty if no own file raised it."""
    frames = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(MODULE_PREFIX)
    ]
    if not frames:
        return ""
    code, line = frames[-1]
    text = f" ({Path(code.co_filename).name}, line {line})"
    in_step = any(code.co_name == "step" for code, _ in frames)
    if in_step and isinstance(error, TypeError | AttributeError):
        text += f" (step gets torch tensors; {NUMPY_CODE})"
    return text
