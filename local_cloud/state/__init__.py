"""The local cloud's state in a folder: `--state FOLDER`. A SIGKILL loses nothing.

Each backend of moto (a service in an account and region) is one pickled row of a SQLite database. A
call that changes something is answered once the changed rows are committed. The end of a job is
committed before its container is removed.

A folder can be read only by the versions of moto and Python that wrote it. It stays readable when
our classes move to other modules: pickle stores the names of modules, and
`pickling.MOVED_MODULES` maps former names to present ones.
"""


class StateError(Exception):
    """The state can't be read or written."""
