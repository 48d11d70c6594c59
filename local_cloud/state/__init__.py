"""What the local cloud knows, kept in a folder: `--state FOLDER`, and a SIGKILL costs nothing.

Each service of each region is one row of a SQLite database, pickled. A call that changes something
is answered once the rows it changed are committed; so is a job's end before its container goes.
"""


class StateError(Exception):
    """The state can't be read or written."""
