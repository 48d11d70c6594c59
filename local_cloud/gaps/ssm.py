"""Makes Systems Manager return AWS's public parameters by name without listing them.

The parameters, whose values ship with moto, include ECS's AMIs as JSON documents.
"""

from __future__ import annotations

import json
from typing import Any

from moto.ssm import models
from moto.ssm.models import Parameter, SimpleSystemManagerBackend
from moto.ssm.utils import convert_to_params

PUBLIC = "/aws/"


def fill() -> None:
    """Keep public parameters out of DescribeParameters, where moto lists those it has loaded.

    Also return documents as JSON, because moto returns them as Python literals.
    """

    def in_json(tree: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            each | {"Value": json.dumps(each["Value"])} if isinstance(each["Value"], dict) else each
            for each in convert_to_params(tree)
        ]

    models.convert_to_params = in_json  # type: ignore[attr-defined]

    describe = SimpleSystemManagerBackend.describe_parameters

    def describe_own(
        self: SimpleSystemManagerBackend, *filters: Any, **more: Any
    ) -> list[Parameter]:
        found = describe(self, *filters, **more)
        return [parameter for parameter in found if not parameter.name.startswith(PUBLIC)]

    SimpleSystemManagerBackend.describe_parameters = describe_own  # type: ignore[method-assign]
