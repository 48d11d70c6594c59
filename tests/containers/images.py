"""Builds images with BuildKit."""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.containers.engine import Engine

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# The machine's own: nothing leaves by the bridges of our engine, which makes no rules for that.
NETWORK = "--network=host"
PYTHON = "batchmark-test-python:here"  # the base image, under a name that nobody pulls
LAST_LINES = 40


class BuildError(Exception):
    """An image could not be built; the message ends with the end of the build's log."""


def build(
    engine: Engine,
    image: str,
    context: Path,
    *,
    file: Path | None = None,
    target: str = "",
    args: Mapping[str, str] | None = None,
    contexts: Mapping[str, str] | None = None,
) -> float:
    """Build a Dockerfile as it is, and tag what comes out; the seconds that it took.

    Args:
        file: the Dockerfile; the context's own by default.
        target: its stage; the last by default.
        args: build arguments, beside the machine's proxies.
        contexts: folders or images in the place of named stages and images.

    Raises:
        BuildError: a step failed.
    """
    given = {name: os.environ[name] for name in PROXIES if name in os.environ} | dict(args or {})
    command = ["docker", "buildx", "build", "--load", "--progress=plain", NETWORK, f"--tag={image}"]
    command += [f"--file={file}"] if file else []
    command += [f"--target={target}"] if target else []
    command += [f"--build-arg={name}={value}" for name, value in given.items()]
    command += [f"--build-context={name}={place}" for name, place in (contexts or {}).items()]
    started = time.monotonic()
    done = subprocess.run(
        [*command, str(context)],
        env={**os.environ, **engine.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise BuildError(f"{image} can't be built; end of the log:\n{end}")
    return time.monotonic() - started
