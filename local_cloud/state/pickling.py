"""moto's backends as bytes: what pickle does not know about them."""

from __future__ import annotations

import copyreg
import importlib
import io
import marshal
import pickle
import threading
from collections import defaultdict
from types import FunctionType
from typing import Any, Protocol

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from moto.core.base_backend import BaseBackend
from moto.s3.models import FakeKey

Key = tuple[str, str, str]  # service, account, region

NAMES = object()  # stands for the Names that read it
LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}


class Names(Protocol):
    """What is only named in a row, and lives elsewhere."""

    def of_backend(self, backend: BaseBackend) -> Key | None:
        """A backend's; None where it is nobody's but this one's."""

    def of_content(self, key: FakeKey) -> str:
        """The content's of an object in S3."""

    def backend(self, key: Key) -> BaseBackend:
        """The live backend of a name."""

    def give_back(self, key: FakeKey, name: str, state: dict[str, Any]) -> None:
        """Make an object what it was, with the content of this name."""


class BackendPickler(pickle.Pickler):
    """Pickles what a backend holds; other backends and the contents of objects are only named."""

    def __init__(self, file: io.BytesIO, names: Names) -> None:
        super().__init__(file, protocol=5)
        self._names = names

    def persistent_id(self, obj: Any) -> Key | str | None:
        """The name of what lives elsewhere."""
        if obj is NAMES:
            return "names"
        return self._names.of_backend(obj) if isinstance(obj, BaseBackend) else None

    def reducer_override(self, obj: Any) -> Any:
        """How to make these again."""
        if type(obj) in LOCKS:
            return LOCKS[type(obj)], ()
        if isinstance(obj, FakeKey):
            rest = {k: v for k, v in vars(obj).items() if k not in ("_value_buffer", "lock")}
            named = (NAMES, self._names.of_content(obj), rest)
            return copyreg.__newobj__, (type(obj),), named, None, None, give_back  # type: ignore[attr-defined]
        if isinstance(obj, FunctionType) and "<lambda>" in obj.__qualname__ and not obj.__closure__:
            return remade_function, (obj.__module__, marshal.dumps(obj.__code__))
        if isinstance(obj, defaultdict) and type(obj) is not defaultdict:
            state = (vars(obj), {"default_factory": obj.default_factory})
            return copyreg.__newobj__, (type(obj),), state, None, iter(dict.items(obj))  # type: ignore[attr-defined]
        if hasattr(obj, "private_bytes") and not isinstance(obj, type):
            der = obj.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            return private_key, (der,)
        return NotImplemented


class BackendUnpickler(pickle.Unpickler):
    """Reads it back."""

    def __init__(self, file: io.BytesIO, names: Names) -> None:
        super().__init__(file)
        self._names = names

    def persistent_load(self, pid: Any) -> BaseBackend | Names:
        """What was named."""
        return self._names if pid == "names" else self._names.backend(pid)


def give_back(key: FakeKey, named: tuple[Names, str, dict[str, Any]]) -> None:
    """An object's state, when it is read."""
    names, content, state = named
    names.give_back(key, content, state)


def private_key(der: bytes) -> Any:
    """A key of KMS."""
    return load_der_private_key(der, None)


def remade_function(module: str, code: bytes) -> FunctionType:
    """A function without closure, in its module."""
    return FunctionType(marshal.loads(code), vars(importlib.import_module(module)))  # noqa: S302


def dumps(held: dict[str, Any], names: Names) -> bytes:
    """What a backend holds, as bytes."""
    file = io.BytesIO()
    BackendPickler(file, names).dump(held)
    return file.getvalue()


def loads(data: bytes, names: Names) -> dict[str, Any]:
    """What a backend held."""
    held: dict[str, Any] = BackendUnpickler(io.BytesIO(data), names).load()
    return held
