"""Systems Manager: AWS's own public parameters, which can be read by name and are not listed."""

from __future__ import annotations

from typing import Any

from moto.ssm.models import Parameter, SimpleSystemManagerBackend

PUBLIC = "/aws/"


def fill() -> None:
    """Keep them out of DescribeParameters, where moto shows those that it has loaded."""
    describe = SimpleSystemManagerBackend.describe_parameters

    def describe_own(
        self: SimpleSystemManagerBackend, *filters: Any, **more: Any
    ) -> list[Parameter]:
        found = describe(self, *filters, **more)
        return [parameter for parameter in found if not parameter.name.startswith(PUBLIC)]

    SimpleSystemManagerBackend.describe_parameters = describe_own  # type: ignore[method-assign]
