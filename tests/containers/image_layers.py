"""What lies in an image's layers that must not: secrets, and what only its build needed."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Names of files that hold credentials, wherever they lie.
SECRET_NAMES = re.compile(
    r"(^|/)(\.aws|\.docker|\.ssh|\.git|\.netrc|\.pypirc|\.pgpass|id_(rsa|ecdsa|ed25519)"
    r"|[^/]*\.env|[^/]*\.tfstate|[^/]*\.tfvars)(/|$)"
)
# What credentials look like. The last is a URL with a user's password.
SECRETS = re.compile(
    rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    rb"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\r\n]+[A-Za-z0-9+/]{32}"
    rb"|\bgh[pousr]_[A-Za-z0-9]{36}\b"
    rb"|(?i:aws_secret_access_key|aws_session_token)[\"' ]*[=:][\"' ]*[A-Za-z0-9/+]{40}"
    rb"|https?://[^\s/:@\"']+:[^\s/:@\"']+@[a-z0-9]"
)
SECRET_VARIABLES = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|ACCESS_KEY|API_?KEY", re.IGNORECASE)
# Folders of the build stages, and of what installs packages.
LEFTOVERS = ("root/.cache", "build", "wheels", "opt/tools")
LARGEST_TEXT = 2**20


def files(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Every file of every layer of an image as `docker save` writes it, with its first MiB."""
    with tarfile.open(archive) as image:
        manifest = json.load(_member(image, "manifest.json"))
        for name in manifest[0]["Layers"]:
            with tarfile.open(fileobj=_member(image, name)) as layer:
                for member in layer:
                    if member.isfile():
                        content = layer.extractfile(member)
                        text = content.read(LARGEST_TEXT) if content else b""
                        yield PurePosixPath(member.name), text


def _member(archive: tarfile.TarFile, name: str) -> tarfile.ExFileObject:
    member = archive.extractfile(name)
    assert isinstance(member, tarfile.ExFileObject), name
    return member


def secret_in(path: PurePosixPath, content: bytes) -> str | None:
    """What looks like a secret in a file, or that its name is one's."""
    if SECRET_NAMES.search(str(path)):
        return f"{path}: such a file holds credentials"
    found = SECRETS.search(content)
    # AWS's own example, which its libraries' documentation shows.
    if found is None or b"EXAMPLE" in found.group():
        return None
    return f"{path}: {found.group()[:12]!r}…"


def is_left_over(path: PurePosixPath) -> bool:
    return any(path.is_relative_to(folder) for folder in LEFTOVERS)
