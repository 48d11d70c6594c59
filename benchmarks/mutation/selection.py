"""Which tests may find a mutant: those that reach its function, and those beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

OTHER_FILES = 4  # of tests outside the function's room
MOST_SECONDS = 20.0  # of the tests run for one mutant, as they took without it


class Coverage:
    """All unit tests that pass, how long each takes, and which functions it reaches."""

    def __init__(self, recorded: Iterable[Mapping[str, Any]]) -> None:
        """Take what `runs.record` returned for each file."""
        self.seconds: dict[str, float] = {}
        self._of_function: dict[str, list[str]] = defaultdict(list)
        self._of_file: dict[str, list[str]] = defaultdict(list)
        for file in recorded:
            for test, noted in file["tests"].items():
                if test not in file["failed"]:
                    self.seconds[test] = noted["seconds"]
                    self._of_file[_file(test)].append(test)
                    for function in noted["reached"]:
                        self._of_function[function].append(test)

    def is_reached(self, function: str) -> bool:
        return function in self._of_function

    def stages(self, function: str, home: str) -> list[list[str]]:
        """The tests to run, in two rounds: those in the folder `home`, and then others.

        In each file at home the tests that reach the function come first. The file's other tests
        follow, because a call by a fixture of the whole file is seen with its first test only.
        """
        reaching = sorted(self._of_function.get(function, ()), key=self.seconds.__getitem__)
        files = dict.fromkeys(map(_file, reaching))
        near = [file for file in files if file.startswith(f"{home}/")]
        far = [file for file in files if file not in near]
        far.sort(key=lambda file: -sum(_file(test) == file for test in reaching))
        at_home = [test for test in reaching if _file(test) in near]
        beside = [test for file in near for test in self._of_file[file] if test not in at_home]
        others = [test for test in reaching if _file(test) in far[:OTHER_FILES]]
        return [self._affordable(tests) for tests in ([*at_home, *beside], others) if tests]

    def _affordable(self, tests: Sequence[str]) -> list[str]:
        """Leave out what would take more than MOST_SECONDS together, but not the first test."""
        chosen, total = [], 0.0
        for test in tests:
            if not chosen or total + self.seconds[test] <= MOST_SECONDS:
                chosen.append(test)
                total += self.seconds[test]
        return chosen


def _file(test: str) -> str:
    return test.partition("::")[0]
