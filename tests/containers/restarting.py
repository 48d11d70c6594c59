"""A local cloud that is killed and started again with the same options."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.clouds import ROOT, Cloud, ready, running
from tests.waiting import PATIENCE_SECONDS
from tests.warm import Fork


class RestartingCloud:
    """`cloud`'s clients stay; the process behind them is the latest."""

    def __init__(self, cloud: Cloud, options: tuple[str, ...]) -> None:
        self.cloud = cloud
        self._options = options
        self._restarted: Fork | None = None

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def end(self) -> None:
        assert self._signal(signal.SIGTERM) == 0

    def _signal(self, number: int) -> int:
        self.cloud.process.send_signal(number)
        return self.cloud.process.wait(PATIENCE_SECONDS)

    def start(self) -> None:
        self.close()
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._restarted = Fork("local_cloud", self._options, folder=ROOT, env=env, stderr=None)
        self.cloud.process = self._restarted
        assert ready(self._restarted) == (self.cloud.endpoint_url, self.cloud.credentials)

    def close(self) -> None:
        if self._restarted:
            self._signal(signal.SIGTERM)
            self._restarted.stdout.close()


@contextmanager
def restarting(*options: str) -> Iterator[RestartingCloud]:
    """Options name a port, which stays the same."""
    with running(*options) as cloud, closing(RestartingCloud(cloud, options)) as made:
        yield made
