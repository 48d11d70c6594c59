"""Spot's notice that the host will be taken back, which reaches a container by no signal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from batchmark_job.errors import warn
from batchmark_job.machine.metadata import imds_url, instance_metadata

POLL_SECONDS = 5.0  # as AWS recommends


class SpotNotice:
    """A thread that asks the metadata service for the notice, two minutes ahead of the end.

    Batch passes it on to no container: SIGTERM comes when Docker shuts down, SIGKILL soon after. A
    rebalance recommendation, which may come earlier or never, is only said.

    Source: EC2 User Guide, "Spot Instance interruption notices".

    Args:
        on_notice: called once, in the thread.
    """

    def __init__(self, on_notice: Callable[[], None], poll_seconds: float = POLL_SECONDS) -> None:
        self._on_notice = on_notice
        self._poll_seconds = poll_seconds
        self._advised = False

    def watch(self) -> None:
        """Start looking, where there is a metadata service."""
        if url := imds_url():
            threading.Thread(
                target=self._look_out, args=(url,), name="Spot notice", daemon=True
            ).start()

    def _look_out(self, url: str) -> None:
        while True:
            if action := instance_metadata("spot/instance-action", url):
                warn(f"Spot takes this host back: {action}")
                self._on_notice()
                return
            if not self._advised:
                self._look_ahead(url)
            time.sleep(self._poll_seconds)

    def _look_ahead(self, url: str) -> None:
        if advice := instance_metadata("events/recommendations/rebalance", url):
            self._advised = True
            warn(f"Spot is likely to take this host back, the job goes on: {advice}")
