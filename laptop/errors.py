"""What stops a command here, told in one line."""


class LaptopError(Exception):
    """A command can't go on; the message says what was found and what to do."""
