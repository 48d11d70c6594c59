"""`Ref::name` placeholders in a job definition's command."""

import re
from collections.abc import Mapping, Sequence

PLACEHOLDER = re.compile(r"Ref::([A-Za-z0-9_-]+)")


def substitute(command: Sequence[str], parameters: Mapping[str, str]) -> list[str]:
    """Fill in the parameters; as in AWS, a placeholder without a parameter stays."""
    return [
        PLACEHOLDER.sub(lambda match: parameters.get(match[1], match[0]), word) for word in command
    ]
