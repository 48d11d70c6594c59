"""A local cloud that is killed and started again with the same options."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.clouds import Cloud, command_line, ready, running

SECONDS = 30


class RestartingCloud:
    """`cloud`'s clients stay; the process behind them is the latest."""

    def __init__(self, cloud: Cloud, options: tuple[str, ...]) -> None:
        self.cloud = cloud
        self._options = options
        self._process = cloud.process

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(SECONDS)

    def end(self) -> None:
        self._process.terminate()
        assert self._process.wait(SECONDS) == 0

    def start(self) -> None:
        self._close()
        self._process = subprocess.Popen(
            command_line(*self._options), stdout=subprocess.PIPE, text=True
        )
        assert ready(self._process) == (self.cloud.endpoint_url, self.cloud.credentials)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        self._close()

    def _close(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def restarting(*options: str) -> Iterator[RestartingCloud]:
    """Options name a port, which stays the same."""
    with running(*options) as cloud:
        made = RestartingCloud(cloud, options)
        try:
            yield made
        finally:
            made.close()
