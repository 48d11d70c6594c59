"""A job's output that looks fine beforehand and fails when it matters."""

from batchmark_job.errors import OutputError


class BrokenOutput:
    def check(self) -> None: ...

    def write(self, text: str, *, hurried: bool = False) -> None:
        raise OutputError("could not write nowhere: no network")
