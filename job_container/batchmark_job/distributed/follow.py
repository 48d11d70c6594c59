"""Follower nodes, which join the main node and run ranks at its command."""

from __future__ import annotations

import signal
import threading
from typing import Any

from pydantic import ValidationError

from batchmark_job.distributed.busy import GpuUtilisation
from batchmark_job.distributed.lines import LostError, NodeConnection, connect, what_it_did
from batchmark_job.distributed.local_ranks import Ended, LocalRanks
from batchmark_job.distributed.node import CONTROL_PORT, Greeting, Node
from batchmark_job.distributed.task import TASK
from batchmark_job.distributed.torchrun import Launch
from batchmark_job.errors import CannotMeasureError, one_line, say


class Follower:
    def __init__(
        self, node: Node, greeting: Greeting, busy: GpuUtilisation | None, port: int = CONTROL_PORT
    ) -> None:
        self._node, self._greeting, self._busy, self._port = node, greeting, busy, port
        self._main = f"the main node ({node.main_address})"
        self._lines: NodeConnection | None = None
        self._ranks: LocalRanks | None = None

    def follow(self) -> None:
        """Serve the main node until the job is over.

        Raises:
            CannotMeasureError: the main node does not respond, is lost, gives up, or sends
                an invalid message.
        """
        lines = self._lines = _connect(self._node, self._port)
        try:
            lines.send({"kind": "greeting", **self._greeting.model_dump()})
            say(f"batchmark-job: node {self._node.index} of {self._node.count} joined {self._main}")
            while (message := lines.receive())["kind"] != "over":
                if self._ranks is not None:
                    self._ranks.kill()
                if message["kind"] == "launch":
                    self._ranks = self._start(message, lines)
            if message.get("reason"):
                raise CannotMeasureError(f"{self._main} gave up: {message['reason']}")
        except (LostError, KeyError, ValidationError) as error:
            raise CannotMeasureError(
                f"{self._main} {what_it_did(error)}; ending its ranks on this node"
            ) from None
        finally:
            self._leave()

    def stop(self, received: signal.Signals) -> int:
        """Tell the main node that this one is leaving, end the ranks, and return the exit code."""
        say(f"batchmark-job: {received.name}: node {self._node.index} is leaving the job")
        if self._lines is not None:
            self._lines.send({"kind": "leaving", "reason": f"received {received.name}"})
        self._leave()
        return 128 + received

    def _leave(self) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._ranks is not None:
            self._ranks.kill()

    def _start(self, message: dict[str, Any], lines: NodeConnection) -> LocalRanks | None:
        launch = Launch(*message["launch"])
        task = TASK.validate_python(message["task"])
        try:
            ranks = LocalRanks(self._node, launch, task, self._greeting.address, self._busy)
        except OSError as error:
            lines.send(_ended(launch, Ended(1, one_line(error))))
            return None

        def report() -> None:
            ended = ranks.wait()
            lines.send(_ended(launch, ended))
            ranks.remove()

        threading.Thread(target=report, name=f"launch {launch.number}", daemon=True).start()
        return ranks


def decline(node: Node, reason: str, port: int = CONTROL_PORT) -> None:
    """Tell the main node that this one can't take part, and why.

    Raises:
        CannotMeasureError: the main node did not respond in time.
    """
    lines = _connect(node, port)
    lines.send({"kind": "declined", "index": node.index, "reason": reason})
    lines.close()


def _connect(node: Node, port: int) -> NodeConnection:
    try:
        return connect(str(node.main_address), port, node.joining_seconds, node.proof)
    except LostError as error:
        raise CannotMeasureError(f"the main node ({node.main_address}) {error}") from None


def _ended(launch: Launch, ended: Ended) -> dict[str, Any]:
    return {"kind": "ended", "launch": launch.number, "ended": list(ended)}
