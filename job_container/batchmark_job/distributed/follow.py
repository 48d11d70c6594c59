"""What every node but the main one does: it comes, and runs its ranks when it is told to."""

from __future__ import annotations

import threading
from typing import Any

from pydantic import ValidationError

from batchmark_job.distributed.busy import Busy
from batchmark_job.distributed.greeting import Greeting
from batchmark_job.distributed.lines import Lines, LostError, connect
from batchmark_job.distributed.local_ranks import Ended, LocalRanks
from batchmark_job.distributed.node import CONTROL_PORT, Node
from batchmark_job.distributed.task import TASK
from batchmark_job.distributed.torchrun import Launch
from batchmark_job.errors import CannotMeasureError, one_line, say


def follow(node: Node, greeting: Greeting, busy: Busy | None, port: int = CONTROL_PORT) -> None:
    """Serve the main node until it is done.

    Raises:
        CannotMeasureError: it does not come in time, dies, or says what can't be understood.
    """
    main = f"the main node ({node.main_address})"
    ranks: LocalRanks | None = None
    try:
        lines = connect(str(node.main_address), port, node.joining_seconds)
    except LostError as error:
        raise CannotMeasureError(f"{main} {error}") from None
    try:
        lines.send({"kind": "greeting", **greeting.model_dump()})
        say(f"batchmark-job: node {node.index} of {node.count} follows {main}")
        while (message := lines.receive())["kind"] != "over":
            if ranks is not None:
                ranks.kill()
            if message["kind"] == "launch":
                ranks = _start(node, greeting.address, message, busy, lines)
        if message.get("reason"):
            raise CannotMeasureError(f"{main} gave up: {message['reason']}")
    except (LostError, KeyError, ValidationError) as error:
        raise CannotMeasureError(f"{main} {error}; its ranks here end, too") from None
    finally:
        lines.close()
        if ranks is not None:
            ranks.kill()


def _start(
    node: Node, own: str, message: dict[str, Any], busy: Busy | None, lines: Lines
) -> LocalRanks | None:
    launch = Launch(*message["launch"])
    task = TASK.validate_python(message["task"])
    try:
        ranks = LocalRanks(node, launch, task, own, busy)
    except OSError as error:
        lines.send(_ended(launch, Ended(1, one_line(error))))
        return None

    def report() -> None:
        ended = ranks.wait()
        lines.send(_ended(launch, ended))
        ranks.remove()

    threading.Thread(target=report, name=f"launch {launch.number}", daemon=True).start()
    return ranks


def _ended(launch: Launch, ended: Ended) -> dict[str, Any]:
    return {"kind": "ended", "launch": launch.number, "ended": list(ended)}
