"""Commands below the script that own jobs run below, in the shells that images have."""

import os
import shutil
import signal
import subprocess

from batchmark.aws.job_log import FACT_MARK, FILE_MARK
from batchmark.runs.own_jobs.wrapper import command, script
from tests.waiting import PATIENCE_SECONDS

SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix"), "busybox": ("busybox", "sh")}
INSTALLED = {
    name: path for name, (program, *_) in SHELLS.items() if (path := shutil.which(program))
}
# What nvidia-smi answers: samples of two GPUs until it is ended, or their names.
SMI = """
case "$*" in
  --query-gpu=index,utilization.gpu,memory.used*-l*)
    printf '0, 0, 9000\\n1, 99, 1\\n0, 10, 1000\\n1, [N/A], [N/A]\\n0, 90, 3000\\n'
    echo $$ >smi.pid
    exec sleep 3600 ;;
  --query-gpu=name,driver_version,memory.total*) yes 'NVIDIA L4, 570.1, 23034' | head -n 2 ;;
  *) exit 64 ;;
esac
"""


def until(test):
    """A command of a shell that waits for something, ten seconds at most."""
    return f"tries=1000; until {test} || [ $((tries -= 1)) = 0 ]; do sleep 0.01; done"


SMI_WATCHES = until("[ -s smi.pid ]")


class Done:
    """How a wrapped command ended, and what it and its script said.

    Attributes:
        key: what all facts of the script begin with.
        facts: values by name; those of `gpu`, of which there may be several, in one.
        metrics: the lines of its file.
    """

    def __init__(self, code, output, errors=b""):
        self.code, self.output, self.errors = code, output, errors.decode()
        self.text = output.decode(errors="surrogateescape")
        self.facts = {}
        self.key = next(iter(self._marked(FACT_MARK)), "").partition(" ")[0]
        for line in self._marked(f"{FACT_MARK}{self.key} "):
            name, _, value = line.partition(" ")
            self.facts[name] = f"{self.facts[name]}; {value}" if name in self.facts else value
        self.metrics = self._marked(FILE_MARK)

    def _marked(self, mark):
        lines = self.text.splitlines()
        return [line.removeprefix(mark) for line in lines if line.startswith(mark)]

    @property
    def codes(self):
        """The exit code, and the one that the script told of the command."""
        return self.code, int(self.facts["end"].split()[0])


class Wrapped:
    """Commands below the script, in a folder of their own."""

    def __init__(self, shell, folder):
        self.shell, self.folder, self.changes = shell, folder, []

    def instead(self, old, new):
        """A path that the script reads, replaced."""
        assert old in script()
        self.changes.append((old, str(new)))

    def _call(self, words, variables):
        _, option, text, *rest = command(words)
        for old, new in self.changes:
            text = text.replace(old, new)
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(self.folder)}
        return {
            "args": [*self.shell, option, text, *rest],
            "cwd": self.folder,
            "env": environment | variables,
            "stdin": subprocess.DEVNULL,
        }

    def start(self, *words, stdout=subprocess.PIPE, **variables):
        return subprocess.Popen(
            **self._call(words, variables),
            stdout=stdout,
            preexec_fn=take_signals,  # noqa: PLW1509 - it takes no lock
        )

    def run(self, *words, **variables):
        call = self._call(words, variables)
        done = subprocess.run(**call, timeout=PATIENCE_SECONDS, capture_output=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def sh(self, text, **options):
        return self.run("sh", "-c", text, **options)


def take_signals():
    """As in a container: a shell can't trap what it was started to ignore, as by nohup."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def says(job, line):
    """Waits for a line of a job, which ends if it never comes."""
    assert f"{line}\n".encode() in iter(job.stdout.readline, b"")


def to_its_end(job):
    """The rest of its output; communicate() would lose what came with the last line read."""
    with job:
        output = job.stdout.read()
    return Done(job.returncode, output)
