"""Prints the unit tests that a change touches, for `make test-quick`.

A change is what differs from main, committed or not. A module's test mirrors its path; where none
does, the tests of its room that import it run, and where none does, all of the room's.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNIT = Path("tests/unit")
MIRRORED = {
    Path("plugins/batchmark"): UNIT / "plugin",
    Path("job_container/batchmark_job"): UNIT / "job",
    **{Path(folder): UNIT / folder for folder in ("laptop", "local_cloud", "sample", "benchmarks")},
}
ALWAYS = UNIT / "repository" / "test_import_directions.py"
OF_DAGS = UNIT / "repository" / "test_dag_integrity.py"


def main() -> None:
    found = {ALWAYS, *touched_by(changed_files())}
    print("\n".join(sorted(map(str, found))))


def changed_files() -> Iterator[Path]:
    """What differs from the branch's beginning, and what git does not know yet."""
    bases = [line for name in ("main", "origin/main") for line in git("merge-base", "HEAD", name)]
    for line in (
        *git("diff", "--name-only", bases[0] if bases else "HEAD"),
        *git("ls-files", "--others", "--exclude-standard"),
    ):
        yield Path(line)


def git(*arguments: str) -> list[str]:
    """The lines that git answers; none where it fails."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def touched_by(files: Iterable[Path]) -> Iterator[Path]:
    for file in files:
        if file.suffix != ".py":
            continue
        if file.is_relative_to(UNIT):
            yield from existing(file if file.name.startswith("test_") else file.parent)
        elif file.is_relative_to("dags"):
            yield OF_DAGS
        elif file.is_relative_to("tests"):  # builders and stand-ins
            name = ".".join(file.with_suffix("").parts)
            yield from tests_with(re.escape(name), UNIT)
        for folder, mirror in MIRRORED.items():
            if file.is_relative_to(folder):
                room = mirror / file.relative_to(folder).parent
                own = room / f"test_{file.name}"
                yield from existing(own) or importers(file, folder, room) or existing(room)


def importers(file: Path, folder: Path, room: Path) -> list[Path]:
    """The tests of its room that import a module, those of rooms in it only where no other does."""
    package = ".".join(file.relative_to(folder.parent).parent.parts)
    found = list(tests_with(rf"\b{package}(\.| import (\([^)]*|.*)\b){file.stem}\b", room))
    return [test for test in found if test.parent == room] or found


def existing(path: Path) -> list[Path]:
    return [path] if (ROOT / path).exists() else []


def tests_with(pattern: str, folder: Path) -> Iterator[Path]:
    for path in (ROOT / folder).rglob("test_*.py"):
        if re.search(pattern, path.read_text()):
            yield path.relative_to(ROOT)


if __name__ == "__main__":
    sys.exit(main())
