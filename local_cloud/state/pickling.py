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
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from moto.core.base_backend import BaseBackend

if TYPE_CHECKING:
    from collections.abc import Callable

Key = tuple[str, str, str]  # service, account, region

LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}


class BackendPickler(pickle.Pickler):
    """Pickles what a backend holds; the backends themselves are only named in it."""

    def __init__(self, file: io.BytesIO, key_of: Callable[[BaseBackend], Key | None]) -> None:
        super().__init__(file, protocol=5)
        self._key_of = key_of

    def persistent_id(self, obj: Any) -> Key | None:
        """A backend's name, where it is one."""
        return self._key_of(obj) if isinstance(obj, BaseBackend) else None

    def reducer_override(self, obj: Any) -> Any:
        """How to make these again."""
        if type(obj) in LOCKS:
            return LOCKS[type(obj)], ()
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
    """Reads it back; `backend` finds the live backend of a name."""

    def __init__(self, file: io.BytesIO, backend: Callable[[Key], BaseBackend]) -> None:
        super().__init__(file)
        self._backend = backend

    def persistent_load(self, pid: Any) -> BaseBackend:
        """The backend that was named."""
        return self._backend(pid)


def private_key(der: bytes) -> Any:
    """A key of KMS."""
    return load_der_private_key(der, None)


def remade_function(module: str, code: bytes) -> FunctionType:
    """A function without closure, in its module."""
    return FunctionType(marshal.loads(code), vars(importlib.import_module(module)))  # noqa: S302


def dumps(held: dict[str, Any], key_of: Callable[[BaseBackend], Key | None]) -> bytes:
    """What a backend holds, as bytes."""
    file = io.BytesIO()
    BackendPickler(file, key_of).dump(held)
    return file.getvalue()


def loads(data: bytes, backend: Callable[[Key], BaseBackend]) -> dict[str, Any]:
    """What a backend held."""
    held: dict[str, Any] = BackendUnpickler(io.BytesIO(data), backend).load()
    return held
