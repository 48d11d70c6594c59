"""A repository on GitHub whose workflow uses action.yml, and a runner for its steps.

Of expressions it knows those that are a name, and of actions the one that uploads. The steps run in
bash, with a strict stand-in for `gh`.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest.mock import patch

import yaml

from batchmark.command_line import main as batchmark
from tests.builders.files import program
from tests.paths import ROOT
from tests.stand_ins import gh

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
INPUTS = {name: one["default"] for name, one in ACTION["inputs"].items()}
REPOSITORY, MAIN, NUMBER = "owner/library", "main", 7
OF_PUSH = {"repository": {"default_branch": MAIN}}
OURS, FORK = 1, 2  # ids of repositories
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")


class Outcome:
    """What a run left."""

    def __init__(self, run, folder):
        self.run, self.folder = run, folder
        self.code, self.log, self.artifact = 0, "", None
        self.summary_file = folder / "summary"
        self.summary_file.touch()

    @property
    def summary(self):
        return self.summary_file.read_text()


class Workflow:
    def __init__(self, folder):
        """With stand-ins for `batchmark-job`, which takes `documents`, and for what installs."""
        self.folder = folder
        self.documents = folder / "documents"
        self.programs = folder / "programs"
        self.installed = None  # an environment with the real programs
        self.extra = {}  # environment variables
        self.runs = 0
        self.programs.mkdir()
        program(self.programs / "gh", f'exec "{sys.executable}" -S "{gh.__file__}" "$@"')
        self.change(
            repository=REPOSITORY,
            main=MAIN,
            number=NUMBER,
            read_only=False,
            comments=[],
            artifacts=[],
            runs={},
        )

    @property
    def state(self):
        file = self.folder / "state.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def change(self, **fields):
        (self.folder / "state.json").write_text(json.dumps(self.state | fields))

    @property
    def comments(self):
        return [one["body"] for one in self.state["comments"]]

    def push(self, branch=MAIN, event="push", payload=OF_PUSH, **inputs):
        return self._run(event, f"refs/heads/{branch}", branch, payload, inputs)

    def pull_request(self, branch="faster", *, fork=False, event="pull_request", **inputs):
        head = {"ref": branch, "sha": "feedface" * 5}
        payload = OF_PUSH | {"pull_request": {"number": NUMBER, "title": branch, "head": head}}
        self.change(read_only=fork)
        return self._run(event, f"refs/pull/{NUMBER}/merge", branch, payload, inputs, fork)

    def _run(self, event, ref, branch, payload, inputs, fork=False):
        self.runs += 1
        unknown = inputs.keys() - INPUTS.keys()
        assert not unknown, unknown
        folder = self.folder / "runner" / str(self.runs)
        (folder / "temp").mkdir(parents=True)
        (folder / "event.json").write_text(json.dumps(payload))
        outcome = Outcome(self.runs, folder)
        env = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_HEAD_REF": branch,
            "GITHUB_REF": ref,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(self.runs),
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_SHA": f"{self.runs:x}".zfill(40),
            "GITHUB_STEP_SUMMARY": str(outcome.summary_file),
            "GH_STATE": str(self.folder),
            "DOCUMENTS": str(self.documents),
            **self.extra,
        }
        values = {f"inputs.{name}": value for name, value in (INPUTS | inputs).items()}
        values |= {"github.token": gh.TOKEN}
        self._install(folder, env)
        for number, step in enumerate(ACTION["runs"]["steps"]):
            if "uses" in step:
                self._upload(step, values, outcome)
                continue
            assert step.keys() <= {"name", "id", "shell", "env", "run"}
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "text from outside would be a part of the line"
            if self.installed and step["name"] == "Install":
                continue
            outputs = folder / f"outputs-{number}"
            outputs.touch()
            given = {key: _expanded(text, values) for key, text in step["env"].items()}
            env_of_step = env | given | {"GITHUB_OUTPUT": str(outputs)}
            outcome.code = self._step(step["run"], env_of_step, outcome)
            for line in outputs.read_text().splitlines():
                name, _, value = line.partition("=")
                values[f"steps.{step['id']}.outputs.{name}"] = value
            if outcome.code:
                break
        self._keep(outcome, event, branch, fork)
        return outcome

    def _install(self, folder, env):
        """What the step of this name makes, and what it calls."""
        environment = folder / "temp" / "batchmark"
        if self.installed:
            environment.symlink_to(self.installed)
            return
        made = folder / "made"
        made.mkdir()
        program(made / "pip", '[ "$*" = "install --quiet uv" ]')
        program(made / "uv", 'printf "%s\\n" "$@" >"$HOME/installed"')
        program(
            made / "batchmark-job",
            'echo "$@" >>"$HOME/jobs" && echo "$GITHUB_SHA" >"$HOME/commit"\n'
            "for folder; do :; done\n"  # the last argument
            'mkdir -p "$folder" && number=$(ls "$folder" | wc -l)\n'
            'cp "$DOCUMENTS/$number.json" "$folder/local.$number.json"\n'
            'exit "${JOB_CODE:-0}"',
        )
        program(made / "batchmark", 'printf "%s\\0" "$@" >"$HOME/asked"')
        program(
            self.programs / "python3",
            f'[ "$*" = "-m venv {environment}" ] && mkdir {environment} && '
            f"mv {made} {environment}/bin",
        )

    def _step(self, script, env, outcome):
        """Its exit code; what it asked of `batchmark` in its last line is answered here."""
        file = outcome.folder / "step.sh"
        file.write_text(script)
        done = subprocess.run(
            [*SHELL, str(file)],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome.log += done.stdout + done.stderr
        asked = outcome.folder / "asked"
        if done.returncode or not asked.exists():
            return done.returncode
        arguments = asked.read_text().split("\0")[:-1]
        asked.unlink()
        said = io.StringIO()
        with (
            patch.dict(os.environ, env, clear=True),
            chdir(self.folder),
            redirect_stdout(said),
            redirect_stderr(said),
        ):
            try:
                code = batchmark(arguments)
            except SystemExit as ended:  # by its parser
                code = ended.code
        outcome.log += said.getvalue()
        return code

    def _upload(self, step, values, outcome):
        assert step["uses"] == "actions/upload-artifact@v4"
        given = {key: _expanded(str(text), values) for key, text in step["with"].items()}
        assert given.keys() == {"name", "path", "overwrite", "if-no-files-found"}
        outcome.artifact = given["name"]
        shutil.copytree(given["path"], self.folder / str(outcome.run) / given["name"])

    def _keep(self, outcome, event, branch, fork):
        """GitHub's memory of the run and its artifact."""
        run = {
            "id": outcome.run,
            "conclusion": "failure" if outcome.code else "success",
            "event": event,
            "head_sha": f"{outcome.run:x}".rjust(7, "a").ljust(40, "0"),
            "html_url": f"https://github.example/runs/{outcome.run}",
        }
        artifact = {
            "name": outcome.artifact,
            "expired": False,
            "created_at": f"2026-11-28T10:00:{outcome.run:02}Z",
            "workflow_run": {
                "id": outcome.run,
                "head_branch": branch,
                "head_repository_id": FORK if fork else OURS,
                "repository_id": OURS,
            },
        }
        state = self.state
        state["runs"][str(outcome.run)] = run
        if outcome.artifact:
            state["artifacts"].append(artifact)
        self.change(**state)


def _expanded(text, values):
    def value(found):
        assert found[1] in values, f"{found[1]} is not known"
        return values[found[1]]

    return re.sub(r"\$\{\{ (.*?) \}\}", value, text)
