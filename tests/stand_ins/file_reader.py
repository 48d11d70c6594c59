"""A reader of the history's files that works in the test's own process: no fork for each read."""

from contextlib import AbstractContextManager

import pyarrow as pa


class ReaderHere(AbstractContextManager):
    def __init__(self, decode):
        self._decode = decode

    def __exit__(self, *_): ...

    def read(self, body, location):
        try:
            return self._decode(body, location)
        except Exception as error:
            raise pa.ArrowInvalid(str(error)) from error
