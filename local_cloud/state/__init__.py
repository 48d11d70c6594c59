"""The local cloud's state in a folder: `--state FOLDER`. A SIGKILL loses nothing.

Each backend of moto (a service in an account and region) is one pickled row of a SQLite database. A
call that changes something is answered once the changed rows are committed. A job's end is
committed before its container is removed.

A folder can be read only by the version of moto and of Python that wrote it. Within these versions,
a folder stays readable when our classes move to other modules: pickle stores their module, and
`pickling.MOVED_MODULES` maps former names to present ones.
"""


class StateError(Exception):
    """The state can't be read or written."""
