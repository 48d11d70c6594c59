"""GitHub's CLI, as far as `batchmark pull-request` uses it, strict about what it is given.

Its GitHub is the folder that GH_STATE names: state.json, and the artifacts of each run.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

STATE = Path(os.environ.get("GH_STATE", ""))
TOKEN = "the-jobs-token"
BOT = {"login": "github-actions[bot]"}


def main(arguments):
    state = json.loads((STATE / "state.json").read_text())
    if os.environ.get("GH_TOKEN") != TOKEN:
        sys.exit("gh: To use GitHub CLI in a GitHub Actions workflow, set the GH_TOKEN")
    match arguments:
        case ["api", "--paginate", "--slurp", path]:
            answer = _pages(state, path)
        case ["api", "--method", ("POST" | "PATCH") as method, path, "--input", "-"]:
            answer = _written(state, method, path, json.loads(sys.stdin.read()))
        case ["api", path]:
            answer = _one(state, path)
        case ["run", "download", number, "--repo", where, "--name", name, "--dir", folder]:
            assert where == state["repository"], where
            shutil.copytree(STATE / number / name, folder)
            return
        case _:
            sys.exit(f"gh: unknown: {arguments}")
    print(json.dumps(answer))


def _one(state, path):
    repository = re.escape(f"repos/{state['repository']}")
    if found := re.fullmatch(rf"{repository}/actions/artifacts\?name=([\w.-]+)&per_page=100", path):
        return {"artifacts": [one for one in state["artifacts"] if one["name"] == found[1]]}
    if found := re.fullmatch(rf"{repository}/actions/runs/(\d+)", path):
        return state["runs"][found[1]]
    if re.fullmatch(repository, path):
        return {"default_branch": state["main"]}
    sys.exit(f"gh: Not Found (HTTP 404): {path}")


def _pages(state, path):
    """Of one comment each."""
    if path != f"repos/{state['repository']}/issues/{state['number']}/comments?per_page=100":
        sys.exit(f"gh: Not Found (HTTP 404): {path}")
    return [[comment] for comment in state["comments"]] or [[]]


def _written(state, method, path, given):
    repository = f"repos/{state['repository']}"
    if state["read_only"]:
        sys.exit("gh: Resource not accessible by integration (HTTP 403)")
    assert given.keys() == {"body"}
    if len(given["body"]) > 65_536:
        sys.exit("gh: Validation Failed: body is too long (HTTP 422)")
    if (method, path) == ("POST", f"{repository}/issues/{state['number']}/comments"):
        comment = {"id": 1000 + len(state["comments"]), "user": BOT}
        state["comments"].append(comment)
    else:
        assert method == "PATCH", (method, path)
        ours = f"{repository}/issues/comments/"
        (comment,) = [one for one in state["comments"] if path == f"{ours}{one['id']}"]
    comment["body"] = given["body"].replace("\n", "\r\n")  # as GitHub keeps it
    (STATE / "state.json").write_text(json.dumps(state))
    return comment


if __name__ == "__main__":
    main(sys.argv[1:])
