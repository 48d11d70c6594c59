"""Errors that end a command with a message for its user."""


class LaptopError(Exception):
    """A command can't go on; the message says what was found and what to do."""


class TerraformError(LaptopError):
    """Terraform is missing, too old, or ended with an error."""
