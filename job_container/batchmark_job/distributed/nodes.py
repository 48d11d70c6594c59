"""Lets the main node run ranks on all of a job's nodes, once they have joined it."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import ValidationError

from batchmark_job.distributed.busy import GpuUtilisation
from batchmark_job.distributed.door import AuthenticatingListener
from batchmark_job.distributed.lines import LostError, NodeConnection, what_it_did
from batchmark_job.distributed.local_ranks import ENDED, Ended, LocalRanks
from batchmark_job.distributed.node import CONTROL_PORT, LOOPBACK, MAIN_ADDRESS, Greeting, Node
from batchmark_job.distributed.task import Answer, Task
from batchmark_job.distributed.torchrun import Launch
from batchmark_job.errors import CannotMeasureError, one_line, say
from batchmark_job.formatting import count
from batchmark_job.machine.inventory import Machine
from batchmark_job.measuring.processes.workers import StepError
from batchmark_job.result.scaling import ScalingNode

STOPPING_SECONDS = 30.0  # how long ranks may take to end after a stop command
BLAME_SECONDS = 3.0  # how long to wait for other nodes to report what failed
POLL_SECONDS = 0.05  # adds at most this to a launch, and nothing to a sample
MOST_COMING = 2  # per node; beyond that the oldest is closed


@dataclass
class _JoinedNode:
    greeting: Greeting
    lines: NodeConnection
    seconds: float
    lost: str | None = None  # why it was lost, if it was
    ended: dict[int, Ended] = field(default_factory=dict)  # by launch number


class Nodes:
    """Controls the main node's own ranks and the other nodes; losing a node fails all later rows.

    Leaving the context releases the other nodes and tells them about any error.
    """

    def __init__(
        self,
        node: Node,
        *,
        address: str | None = None,
        port: int = CONTROL_PORT,
    ) -> None:
        """Start listening if other nodes are expected.

        Args:
            address: the only address to listen on, this node's own; None in a single-node job.

        Raises:
            CannotMeasureError: the port is not available, or this node has no address.
        """
        self._node, self._own = node, address or LOOPBACK
        self._began = time.monotonic()
        self._joined: dict[int, _JoinedNode] = {}
        self._changed = threading.Condition()
        self._launches = 0
        self._closed = threading.Event()
        self._declined: dict[int, str] = {}  # why, by node index
        self._here: LocalRanks | None = None
        self._coming: list[NodeConnection] = []  # authenticated, but not identified yet
        self._door: AuthenticatingListener | None = None
        if node.count > 1:
            if address is None:
                raise CannotMeasureError(
                    "the main node has no address: the ECS task metadata does not include one; "
                    f"outside Batch, set {MAIN_ADDRESS} to the address at which other nodes can "
                    "reach this one"
                )
            try:
                self._door = AuthenticatingListener(address, port, node.proof, self._let_in)
            except OSError as error:
                raise CannotMeasureError(
                    f"the main node can't listen at {address}, port {port}: {one_line(error)}"
                ) from error

    def gather(self, machine: Machine, devices: int) -> None:
        """Wait until all nodes have joined, and check that each has the required devices.

        Args:
            machine: description of the main node.

        Raises:
            CannotMeasureError: a node did not join, declined, was lost, or lacks the devices.
        """
        mine = self._mine = Greeting.of(0, self._own, machine)
        self._busy = GpuUtilisation.of(mine.device, devices)
        others = self._node.count - 1
        if others:
            say(f"batchmark-job: waiting for {count(others, 'other node')}")
        end = self._began + self._node.joining_seconds

        def all_came() -> bool:
            self._refuse_lost_before_all_came()
            return len(self._joined) >= others

        with self._changed:
            self._changed.wait_for(all_came, end - time.monotonic())
            missing = [n for n in range(1, others + 1) if n not in self._joined]
        dropped = self._close_door()
        if missing:
            strangers = f"; {count(dropped, 'client')} lacked this job's token" if dropped else ""
            raise CannotMeasureError(
                f"only {count(self._node.count - len(missing), 'node')} of {self._node.count} "
                f"joined within {self._node.joining_seconds:.0f} s; missing: node "
                f"{', '.join(map(str, missing))}. Check their logs, and whether the security "
                f"group lets the nodes reach each other{strangers}"
            )
        for greeting in (mine, *(each.greeting for each in self._joined.values())):
            _check(greeting, mine, devices)

    def _close_door(self) -> int:
        """Stop accepting nodes; return how many connections failed authentication."""
        if self._door is None:
            return 0
        self._door.close()
        return self._door.dropped

    def _refuse_lost_before_all_came(self) -> None:
        lost = {index: joined.lost for index, joined in self._joined.items() if joined.lost}
        for index, why in {**self._declined, **lost}.items():
            where = self._name(index) if index in lost else f"node {index}"
            said = (
                (f"joined, then was lost: it {why}") if index in lost else f"can't take part: {why}"
            )
            raise CannotMeasureError(f"{where} {said}")

    @property
    def device(self) -> str:
        """The device that all nodes use: cpu or cuda."""
        return self._mine.device

    def records(self, devices: int) -> tuple[ScalingNode, ...]:
        seconds = {index: joined.seconds for index, joined in self._joined.items()}
        greetings = [self._mine, *(self._joined[index].greeting for index in sorted(seconds))]
        return tuple(
            ScalingNode(
                index=each.index,
                host=each.address,
                instance_type=each.instance_type,
                device_model=each.device_model,
                devices=devices,
                joined_seconds=seconds.get(each.index, 0.0),
            )
            for each in greetings
        )

    def run(self, task: Task, devices: int, seconds: float) -> Answer:
        """Run the ranks once on all nodes, for at most `seconds`, and return rank 0's answer.

        Raises:
            StepError: a rank failed, a node was lost (`lost`), or the ranks hung (`hung`).
        """
        self._wait_if_closed()
        self._refuse_lost()
        self._launches += 1
        address = self._own if self._node.count > 1 else LOOPBACK
        launch = Launch(self._launches, self._node.count, devices, address, _free_port(address))
        described = task.model_dump(mode="json")
        for joined in self._joined.values():
            joined.lines.send({"kind": "launch", "launch": list(launch), "task": described})
        began = time.perf_counter()
        try:
            here = self._here = LocalRanks(self._node, launch, task, address, self._busy)
        except OSError as error:
            self._stop_others(launch)
            raise StepError(f"{self._name(0)}: {one_line(error)}") from error
        if self._closed.is_set():  # meanwhile, when `close` found no ranks to kill
            here.kill()
        try:
            ended = self._wait(here, launch, seconds)
            answer = here.answer()
        except (OSError, ValidationError) as error:
            self._wait_if_closed()
            raise StepError(f"rank 0 did not write a valid result: {one_line(error)}") from error
        finally:
            here.remove()
            self._here = None
        busy_share = _busy_share(ended, answer, began)
        return answer.model_copy(update={"busy_share": busy_share})

    def _wait_if_closed(self) -> None:
        """Block forever once closed; the thread that writes the document ends the process."""
        if self._closed.is_set():
            threading.Event().wait()

    def usage(self) -> tuple[float, int]:
        """Return the CPU seconds and resident bytes used by the ranks running on this node."""
        here = self._here
        return here.usage() if here else (0.0, 0)

    def close(self, reason: str | None = None) -> None:
        """End this node's ranks, and release the other nodes with any `reason` for ending early."""
        self._closed.set()
        self._close_door()
        for joined in list(self._joined.values()):
            joined.lines.send({"kind": "over", "reason": reason})
            joined.lines.close()
        if here := self._here:
            here.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(one_line(error) if error else None)

    def _let_in(self, connection: socket.socket) -> None:
        lines = NodeConnection(connection)
        with self._changed:
            self._coming.append(lines)
            if len(self._coming) > MOST_COMING * self._node.count:
                self._coming.pop(0).close()
        threading.Thread(target=self._follow, args=(lines,), name="node", daemon=True).start()

    def _follow(self, lines: NodeConnection) -> None:
        """Handle all messages from one node."""
        joined: _JoinedNode | None = None
        try:
            message = self._first_word(lines)
            if message.pop("kind", None) == "declined":
                with self._changed:
                    self._declined[int(message["index"])] = str(message["reason"])
                    self._changed.notify_all()
                lines.close()
                return
            greeting = Greeting.model_validate(message)
            with self._changed:
                if refusal := self._refusal(greeting):
                    lines.send({"kind": "over", "reason": refusal})
                    lines.close()
                    return
                joined = _JoinedNode(greeting, lines, time.monotonic() - self._began)
                self._joined[greeting.index] = joined
                self._changed.notify_all()
            while (message := lines.receive()).get("kind") != "leaving":
                joined.ended[int(message["launch"])] = ENDED.validate_python(message["ended"])
            lines.close()
            joined.lost = str(message["reason"])
        except (LostError, KeyError, TypeError, ValueError, OverflowError) as error:
            lines.close()
            with self._changed:
                if joined is not None:
                    joined.lost = what_it_did(error)
                self._changed.notify_all()

    def _first_word(self, lines: NodeConnection) -> dict[str, Any]:
        try:
            return lines.receive()
        finally:
            with self._changed:
                if lines in self._coming:
                    self._coming.remove(lines)

    def _refusal(self, greeting: Greeting) -> str | None:
        """Return why a node can't join, or None if it can."""
        if not 0 < greeting.index < self._node.count:
            return f"node {greeting.index} is not one of the job's {self._node.count}"
        if greeting.index in self._joined:
            return f"node {greeting.index} has already joined"
        return None

    def _wait(self, here: LocalRanks, launch: Launch, seconds: float) -> list[Ended]:
        """Wait until every node's ranks have ended without an error.

        Raises:
            StepError: a node failed or the time is up; all ranks have been stopped.
        """
        end = time.monotonic() + seconds
        own: list[Ended] = []
        waiter = threading.Thread(target=lambda: own.append(here.wait()), daemon=True)
        waiter.start()
        while True:
            ended = self._ended(own, launch)
            lost = any(joined.lost for joined in self._joined.values())
            failed = any(each.code != 0 for each in ended.values())
            if not (lost or failed) and len(ended) == self._node.count:
                return list(ended.values())
            late = time.monotonic() > end
            if lost or failed or late:
                break
            time.sleep(POLL_SECONDS)
        self._wait_if_closed()
        if failed and not lost:
            # The node at fault may be the last one to notice that its rank has failed.
            self._give_them_time(launch, BLAME_SECONDS)
        self._stop_others(launch)
        here.kill()
        waiter.join(STOPPING_SECONDS)
        if not lost:
            self._give_them_time(launch, STOPPING_SECONDS)
        self._wait_if_closed()
        self._refuse_lost()
        raise self._why(own, launch, seconds)

    def _give_them_time(self, launch: Launch, seconds: float) -> None:
        """Wait for the other nodes to report how their ranks ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            others = [each for each in self._joined.values() if not each.lost]
            if all(launch.number in each.ended for each in others):
                return
            time.sleep(POLL_SECONDS)

    def _ended(self, own: Sequence[Ended], launch: Launch) -> dict[int, Ended]:
        """Return how the ranks ended, by node index; nodes with running ranks are left out."""
        ended = dict(enumerate(own))
        for index, joined in self._joined.items():
            if launch.number in joined.ended:
                ended[index] = joined.ended[launch.number]
        return ended

    def _why(self, own: Sequence[Ended], launch: Launch, seconds: float) -> StepError:
        ends = self._ended(own, launch)
        failed = {index: each for index, each in ends.items() if each.error}
        if not failed:
            return StepError(f"the ranks did not end within {seconds:.0f} s", hung=True)
        index = min(failed, key=lambda each: (failed[each].lost_another, failed[each].failed_at))
        blamed = failed[index]
        reason = f"{self._name(index)}: {blamed.error}"
        return StepError(reason, out_of_memory=blamed.out_of_memory)

    def _stop_others(self, launch: Launch) -> None:
        for joined in self._joined.values():
            joined.lines.send({"kind": "stop", "launch": launch.number})

    def _refuse_lost(self) -> None:
        for index, joined in sorted(self._joined.items()):
            if joined.lost:
                raise StepError(f"{self._name(index)} was lost: it {joined.lost}", lost=True)

    def _name(self, index: int) -> str:
        host = self._joined[index].greeting.address if index else self._own
        return f"node {index} ({host})"


def _check(greeting: Greeting, mine: Greeting, devices: int) -> None:
    where = f"node {greeting.index} ({greeting.address})"
    if greeting.device != mine.device:
        raise CannotMeasureError(
            f"{where} measures on {greeting.device}, but the main node measures on {mine.device}; "
            "use the same instance type for all nodes"
        )
    if greeting.device == "cuda" and greeting.gpus < devices:
        raise CannotMeasureError(
            f"{where} has {count(greeting.gpus, 'GPU')}, but --devices is {devices}; use "
            f"{greeting.gpus} or fewer"
        )


def _busy_share(ended: Sequence[Ended], answer: Answer, began: float) -> float | None:
    """Return the mean GPU utilisation during sampling; readings are timed from the launch."""
    if len(answer.starts) < 2:
        return None
    first, last = answer.starts[0] - began, answer.starts[-1] - began
    shares = [share for each in ended for at, share in each.busy if first <= at <= last]
    return statistics.fmean(shares) if shares else None


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])
