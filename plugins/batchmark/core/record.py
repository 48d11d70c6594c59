"""The base class for all records, which are frozen and reject unknown fields and NaN."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from batchmark_job.result.printable import printable


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def first_problem(error: ValidationError) -> str:
    """Describe a document's first schema violation."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "document"
    return printable(f"{where}: {first['msg']}")
