"""Watches for Spot's interruption notice, which no signal announces to a container."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from batchmark_job.errors import warn
from batchmark_job.machine.metadata import imds_url, instance_metadata

POLL_SECONDS = 5.0  # as AWS recommends


def watch(on_notice: Callable[[], None], poll_seconds: float = POLL_SECONDS) -> None:
    """Start a thread that polls the metadata service, if there is one, for the two-minute notice.

    Batch does not pass the notice on: SIGTERM comes only when Docker shuts down, with SIGKILL soon
    after. A rebalance recommendation, which can come earlier or never, is only logged.

    Source: EC2 User Guide, "Spot Instance interruption notices".

    Args:
        on_notice: called once, in the thread.
    """
    if url := imds_url():
        threading.Thread(
            target=_look_out, args=(url, on_notice, poll_seconds), name="Spot notice", daemon=True
        ).start()


def _look_out(url: str, on_notice: Callable[[], None], poll_seconds: float) -> None:
    advice = None
    while not (action := instance_metadata("spot/instance-action", url)):
        if not advice and (advice := instance_metadata("events/recommendations/rebalance", url)):
            warn(f"Spot may interrupt this host soon; the job continues: {advice}")
        time.sleep(poll_seconds)
    warn(f"Spot is interrupting this host: {action}")
    on_notice()
