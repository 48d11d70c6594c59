"""What the containers of pods do, and how they end."""

from __future__ import annotations

from tests.stand_ins.kubernetes_api.resources import Object, index_of


class Containers:
    """Each replica runs for some ticks and exits with 0; the first waits for what all measured.

    Args:
        ticks: how long a replica runs.
        replicas: how many meet before any of them runs; without, each runs as it starts.
    """

    def __init__(self, ticks: int = 2, *, replicas: int | None = None) -> None:
        self.ticks = ticks
        self.replicas = replicas
        self.exit_codes: dict[int, int] = {}  # by index
        self.logs: dict[int, str] = {}
        self.running: dict[str, int] = {}  # ticks left, by pod
        self.started = 0

    def start(self, pod: Object) -> None:
        self.running[pod["metadata"]["name"]] = self.ticks
        self.started += 1

    def exit_code(self, pod: Object) -> int | None:
        """None while it runs."""
        name, index = pod["metadata"]["name"], index_of(pod)
        if self.replicas and self.started < self.replicas:
            return None
        self.running[name] -= 1
        others = [left for other, left in self.running.items() if other != name]
        if self.running[name] > 0 or (index == 0 and any(left > 0 for left in others)):
            return None
        return self.exit_codes.get(index, 0)

    def log(self, pod: Object) -> str:
        index = index_of(pod)
        return self.logs.get(index, f"replica {index}\n")

    def kill(self, pod: Object) -> None:
        self.running.pop(pod["metadata"]["name"], None)
