"""Containers that run: each pod's command as a process of this machine, which has no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.paths import ROOT
from tests.stand_ins.kubernetes_api.containers import Containers
from tests.stand_ins.kubernetes_api.resources import Object, index_of

BRIEFLY = ("--allow-cpu-fallback", "--no-ceilings", "--max-seconds", "0.5")


class Processes(Containers):
    """A folder of this machine stands for the node's, and one for the bucket.

    Args:
        folder: where they lie.
        put: stores what the first replica has written, as a text under a key of the bucket.
    """

    def __init__(self, folder: Path, put: Callable[[str, str], object]) -> None:
        super().__init__()
        self.folder, self.put = folder, put
        (folder / "sharing").mkdir()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, pod: Object) -> None:
        self.started += 1
        (container,) = pod["spec"]["containers"]
        python, *command = container["command"]
        assert python == "python"
        at = command.index("--output") + 1
        command[at] = str(self.folder / command[at].removeprefix("s3://")) + "/"
        variables = {one["name"]: one["value"] for one in container["env"]}
        variables["BATCHMARK_SHARING_FOLDER"] = str(self.folder / "sharing")
        with self._log(pod).open("wb") as log:
            self.processes[pod["metadata"]["name"]] = subprocess.Popen(
                [sys.executable, *command, *BRIEFLY],
                env={**os.environ, **variables, "PYTHONPATH": str(ROOT / "job_container")},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def exit_code(self, pod: Object) -> int | None:
        code = self.processes[pod["metadata"]["name"]].poll()
        if code is not None and index_of(pod) == 0:
            for file in self.folder.glob("results/**/*.json"):
                key = file.relative_to(self.folder / "results")
                self.put(str(key), file.read_text())
        return code

    def log(self, pod: Object) -> str:
        return self._log(pod).read_text()

    def kill(self, pod: Object) -> None:
        process = self.processes.pop(pod["metadata"]["name"], None)
        if process and process.poll() is None:
            process.kill()
            process.wait()

    def _log(self, pod: Object) -> Path:
        return self.folder / f"{pod['metadata']['name']}.log"
