"""Pickles moto's backends, including objects that pickle alone can't handle."""

from __future__ import annotations

import copyreg
import importlib
import io
import marshal
import pickle
import threading
from collections import defaultdict
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from moto.backends import get_backend
from moto.core.base_backend import BaseBackend
from moto.logs.models import LogStream
from moto.s3.models import FakeKey

from local_cloud.gaps import logs
from local_cloud.gaps.log_events import motos_event
from local_cloud.state.contents import Contents

Key = tuple[str, str, str]  # service, account, region

# Former module -> present module of our classes, for states written before they moved.
MOVED_MODULES = {
    "local_cloud.batch.container": "local_cloud.batch.jobs.container",
    "local_cloud.batch.job": "local_cloud.batch.jobs.job",
    "local_cloud.batch.pool": "local_cloud.batch.jobs.resources",
}

CONTENTS = object()  # placeholder for the unpickler's Contents
LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}


class BackendPickler(pickle.Pickler):
    """Pickles a backend's attributes, but refers to other backends and S3 contents by name.

    Args:
        names: backends' names, keyed by `id(backend)`; a backend without one is pickled in full.
    """

    def __init__(self, file: io.BytesIO, names: Mapping[int, Key], contents: Contents) -> None:
        super().__init__(file, protocol=5)
        self._names, self._contents = names, contents

    def persistent_id(self, obj: Any) -> Key | str | None:
        if obj is CONTENTS:
            return "names"
        return self._names.get(id(obj)) if isinstance(obj, BaseBackend) else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in LOCKS:
            return LOCKS[type(obj)], ()
        if isinstance(obj, FakeKey):
            rest = {k: v for k, v in vars(obj).items() if k not in ("_value_buffer", "lock")}
            named = (CONTENTS, self._contents.name(obj), rest)
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
    def __init__(self, file: io.BytesIO, contents: Contents) -> None:
        super().__init__(file)
        self._contents = contents

    def persistent_load(self, pid: Any) -> BaseBackend | Contents:
        return self._contents if pid == "names" else live(pid)

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(MOVED_MODULES.get(module, module), name)


def live(key: Key) -> BaseBackend:
    """Return the backend with this key, creating it if necessary."""
    service, account, region = key
    backend: BaseBackend = get_backend(service)[account][region]  # type: ignore[call-overload]
    return backend


def give_back(key: FakeKey, named: tuple[Contents, str, dict[str, Any]]) -> None:
    """Restore an S3 object while unpickling. Stored states refer to this function by name."""
    contents, name, state = named
    contents.restore(key, name, state)


def restore_events(stream: LogStream, state: dict[str, Any]) -> None:
    """Restore a log stream pickled by an earlier version, along with its events.

    Stored states refer to this function by name.
    """
    values_of_events = pickle.loads(state["events"])  # noqa: S301 - as trusted as what holds it
    events = [motos_event(*values) for values in values_of_events]
    logs.restore(stream, {**state, "events": events})


def private_key(der: bytes) -> Any:
    return load_der_private_key(der, None)


def remade_function(module: str, code: bytes) -> FunctionType:
    """Rebuild a lambda that has no closure from its marshalled code."""
    return FunctionType(marshal.loads(code), vars(importlib.import_module(module)))  # noqa: S302


def dumps(held: dict[str, Any], names: Mapping[int, Key], contents: Contents) -> bytes:
    file = io.BytesIO()
    BackendPickler(file, names, contents).dump(held)
    return file.getvalue()


def loads(data: bytes, contents: Contents) -> dict[str, Any]:
    held: dict[str, Any] = BackendUnpickler(io.BytesIO(data), contents).load()
    return held
