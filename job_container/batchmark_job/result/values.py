"""The types and bounds of a result document's values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, FailFast, Field

from batchmark_job.result.printable import printable

# Limits of a document: as text, samples that are all flagged take 12 of the 16 MiB.
MOST_BYTES = 16 * 2**20
MOST_ROWS = 1_000
MOST_SAMPLES = 10_000  # of a row
MOST_SAMPLES_IN_ALL = 200_000
MOST_CHARACTERS = 2_000  # of a reason
MOST_CHARACTERS_OF_NAME = 300  # Airflow's run ids have up to 250
MOST_KEYS = 100  # of an object; Measurement has a quarter of them
BY_HAND = "local"  # job id outside Batch, and the target of a job that has none
NO_RUN = "manual"  # run id of a job outside a run; the job definitions' default


def _refuse_steering(text: str) -> str:
    if (shown := printable(text)) != text:
        raise ValueError(
            f"{shown!r:.100} contains a line break or another control character: remove it"
        )
    return text


# A document comes from another machine. Within these bounds its values fit the history's columns,
# and neither quotients nor squares of them overflow. Earlier releases wrote any text, so control
# characters in a Text are replaced. A Line is refused for them: people write it, or it is a key for
# lookups.
PRINTABLE, IN_A_LINE = AfterValidator(printable), AfterValidator(_refuse_steering)
Name = Annotated[str, Field(max_length=MOST_CHARACTERS_OF_NAME), PRINTABLE]
Text = Annotated[str, Field(max_length=MOST_CHARACTERS), PRINTABLE]
Shown = Annotated[str, PRINTABLE]
Line = Annotated[str, IN_A_LINE]
Count = Annotated[int, Field(ge=0, lt=2**31)]
PositiveCount = Annotated[int, Field(ge=1, lt=2**31)]
ExitCode = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Size = Annotated[int, Field(ge=0, lt=2**63)]
PositiveSize = Annotated[int, Field(ge=1, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]  # 32 years
PositiveSeconds = Annotated[float, Field(ge=1e-12, le=1e9)]  # clocks resolve 1e-9 or more
Amount = Annotated[float, Field(ge=0, le=1e18)]  # hertz, watts, joules
Ratio = Annotated[float, Field(ge=0, le=1e21)]  # ratio of two durations
Rate = Annotated[float, Field(ge=1, le=1e21)]  # the fastest machine reaches 1e18 flop/s
Reading = Annotated[float, Field(ge=-1e18, le=1e18)]
Share = Annotated[float, Field(ge=0, le=1)]
EARLIEST, END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST, lt=END)]
Parameter = Annotated[int, Field(gt=-(2**63), lt=2**63)] | float | Name

_Item = TypeVar("_Item")
# Stop at the first wrong item: a list of errors takes a hundred times a document's memory.
Few = Annotated[tuple[_Item, ...], FailFast(), Field(max_length=100)]
OfSamples = Annotated[tuple[_Item, ...], FailFast(), Field(max_length=MOST_SAMPLES)]


class Model(BaseModel):
    """Base class of all records: immutable, and strict about unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def optional(description: str, default: tuple[()] | None = None) -> Any:
    """Return a field that some documents lack, in which case its value is null or `default`."""
    return Field(default=default, description=description)
