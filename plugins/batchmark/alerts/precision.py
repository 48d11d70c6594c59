"""How often alerts were right, by what people said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import Field

from batchmark import figures
from batchmark.record import Record

if TYPE_CHECKING:
    from batchmark.alerts.records import Alert


class Precision(Record):
    """Alerts by the state that they are in."""

    acknowledged: int = Field(ge=0)
    fixed: int = Field(ge=0)
    recovered: int = Field(
        ge=0, description="its level came back, and nobody called it invalid before or after"
    )
    invalid: int = Field(ge=0)
    undecided: int = Field(ge=0, description="open: nobody has said anything of it yet")

    @property
    def right(self) -> int:
        return self.acknowledged + self.fixed + self.recovered

    @property
    def share(self) -> float | None:
        """Of the alerts that something is known of, those that were right; None of none."""
        known = self.right + self.invalid
        return self.right / known if known else None

    def __str__(self) -> str:
        waiting = f"{self.undecided} open without a verdict"
        if self.share is None:
            return f"no verdict on any alert yet; {waiting}"
        return (
            f"{self.right} of {self.right + self.invalid} alerts were right "
            f"({figures.percent(self.share)}): {self.acknowledged} acknowledged, {self.fixed} "
            f"fixed, {self.recovered} recovered by themselves, {self.invalid} invalid; {waiting}"
        )


def precision(alerts: Iterable[Alert]) -> Precision:
    states = Counter(alert.state for alert in alerts)
    return Precision(
        acknowledged=states["acknowledged"],
        fixed=states["fixed"],
        recovered=states["recovered"],
        invalid=states["invalid"],
        undecided=states["open"],
    )
