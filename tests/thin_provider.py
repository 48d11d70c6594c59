"""Terraform's AWS provider, started as with `-debug`, with the schema of what our code uses alone.

Each Terraform command reads the schema of all 1,600 types of resource first, which takes it and the
provider 2.5 s of processor time. All other calls reach the provider as they are.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import grpc

from tests.paths import ROOT

ADDRESS = re.compile(r"TF_REATTACH_PROVIDERS='(.+\"String\":\"([^\"]+)\".+)'")
SCHEMA = "/tfplugin5.Provider/GetSchema"
# The fields of its answer that list types by name.
KINDS = {2: "resource", 3: "data", 8: "ephemeral"}
USED = re.compile(r'^\s*(resource|data|ephemeral) "(\w+)"', re.MULTILINE)
STREAMS = ("/plugin.GRPCBroker/", "/plugin.GRPCStdio/")  # Terraform does without them
CALLS = 64  # at once; one may last for minutes
QUIET = {"TF_LOG_SDK": "OFF", "TF_LOG_PROVIDER": "OFF"}  # it would trace every call
NO_LIMIT = [("grpc.max_receive_message_length", -1)]


class Thin(grpc.GenericRpcHandler):
    def __init__(self, address: str) -> None:
        self._provider = grpc.insecure_channel(f"unix:{address}", NO_LIMIT)

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        if method.startswith(STREAMS):
            return None
        ask = self._provider.unary_unary(method)

        def answer(request: bytes, context: Any) -> bytes:
            try:
                return self._schema if method == SCHEMA else bytes(ask(request))
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    @cached_property
    def _schema(self) -> bytes:
        texts = (file.read_text() for file in (ROOT / "terraform").rglob("*.tf"))
        used = {found for text in texts for found in USED.findall(text)}
        whole = self._provider.unary_unary(SCHEMA)(b"")
        return b"".join(
            field
            for number, field, content in fields(whole)
            if number not in KINDS or (KINDS[number], name_of(content)) in used
        )


def fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Of a protobuf message whose fields all have a length: number, whole field, content."""
    at = 0
    while at < len(message):
        key, start = varint(message, at)
        length, start = varint(message, start)
        yield key >> 3, message[at : start + length], message[start : start + length]
        at = start + length


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at


def name_of(entry: bytes) -> str:
    return next(content for number, _, content in fields(entry) if number == 1).decode()


def main(binary: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [binary, "-debug"], env={**os.environ, **QUIET}, stdout=subprocess.PIPE, text=True
        ) as provider,
    ):
        signal.signal(signal.SIGTERM, lambda *_: provider.kill())
        assert provider.stdout is not None
        told = next(found for line in provider.stdout if (found := ADDRESS.search(line)))
        server = grpc.server(ThreadPoolExecutor(CALLS), [Thin(told[2])], options=NO_LIMIT)
        server.add_insecure_port(f"unix:{folder}/provider")
        server.start()
        print(told[0].replace(told[2], f"{folder}/provider"), flush=True)
        provider.wait()
        server.stop(None)


if __name__ == "__main__":
    main(sys.argv[1])
