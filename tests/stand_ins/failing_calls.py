"""Calls that fail, at first or always."""

from itertools import chain, repeat


def failing(*errors, then=None):
    """A call that raises these, one each time; after them does `then`, or raises the last again."""
    left = chain(errors, () if then else repeat(errors[-1]))

    def call(*arguments, **named):
        if error := next(left, None):
            raise error
        return then(*arguments, **named)

    return call
