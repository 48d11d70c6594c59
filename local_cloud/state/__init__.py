"""Keeps the local cloud's state in a folder (`--state FOLDER`), so that a SIGKILL loses nothing.

Each moto backend (a service in an account and region) is pickled into one row of a SQLite database.
A call that changes something gets its response only after the changed rows are committed. The end
of a job is committed before its container is removed.

A folder can be read only by the versions of moto and Python that wrote it. It stays readable when
our classes move to other modules: pickle stores module names, and `pickling.MOVED_MODULES` maps
old names to new ones.
"""


class StateError(Exception):
    """Raised if the state can't be read or written."""
