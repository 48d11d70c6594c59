"""The sample's bucket in memory, for tests that want to know what it was asked."""

from __future__ import annotations

from collections.abc import Callable

from sample import bucket


class MemoryBucket(bucket.MemoryBucket):
    """Keeps its calls.

    Attributes:
        calls: operation and key, or prefix, of each call.
        on_call: is told of each call before it is answered.
    """

    def __init__(self, name, region):
        super().__init__(name, region)
        self.calls: list[tuple[str, str]] = []
        self.on_call: Callable[[str, str], None] = lambda operation, key: None

    def _begin(self, operation, bucket, key):
        self.calls.append((operation, key))
        self.on_call(operation, key)
        super()._begin(operation, bucket, key)
