"""Programs of the tests: Airflow reads its settings at its first import, so a run is one's own."""

import json
import os
import subprocess
import sys

from tests.paths import ROOT


def told_by(module, *arguments, **env):
    """What a module prints as a program: the last line, which is JSON, and all of it."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout
