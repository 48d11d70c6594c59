"""What lies in an image's layers that must not: secrets, and what only its build needed."""

import re
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO

# Names of files that hold credentials, wherever they lie.
SECRET_NAMES = re.compile(
    r"(^|/)(\.aws|\.docker|\.ssh|\.git|\.netrc|\.pypirc|\.pgpass|id_(rsa|ecdsa|ed25519)"
    r"|[^/]*\.env|[^/]*\.tfstate|[^/]*\.tfvars)(/|$)"
)
# What credentials look like, by a word that is quickly looked for. The last is a password in a URL.
SECRETS = {
    word: re.compile(pattern)
    for word, pattern in {
        b"AKIA": rb"\bAKIA[0-9A-Z]{16}\b",
        b"ASIA": rb"\bASIA[0-9A-Z]{16}\b",
        b"PRIVATE KEY": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----[\r\n]+[A-Za-z0-9+/]{32}",
        b"ghp_": rb"\bghp_[A-Za-z0-9]{36}\b",
        b"aws_secret_access_key": rb"aws_secret_access_key[\"' ]*[=:][\"' ]*[A-Za-z0-9/+]{40}",
        b"AWS_SECRET_ACCESS_KEY": rb"AWS_SECRET_ACCESS_KEY[\"' ]*[=:][\"' ]*[A-Za-z0-9/+]{40}",
        b"://": rb"https?://[^\s/:@\"']+:[^\s/:@\"']+@[a-z0-9]",
    }.items()
}
# Of AWS's own documentation, and of what explains URLs.
EXAMPLES = re.compile(rb"EXAMPLE|:(pass(word)?|\*+)@")
SECRET_VARIABLES = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|ACCESS_KEY|API_?KEY", re.IGNORECASE)
# Folders of the build stages, and of what installs packages.
LEFTOVERS = ("root/.cache", "var/cache/packages", "build", "wheels", "opt/tools")
LARGEST_TEXT = 2**19


def files(archive: IO[bytes]) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Every file of every layer of an image as `docker save` writes it, with its first half MiB."""
    with tarfile.open(fileobj=archive, mode="r|") as image:
        for blob in filter(tarfile.TarInfo.isfile, image):
            if layer := opened(image.extractfile(blob)):
                for member in filter(tarfile.TarInfo.isfile, layer):
                    content = layer.extractfile(member)
                    assert content is not None
                    yield PurePosixPath(member.name), content.read(LARGEST_TEXT)


def opened(blob: IO[bytes] | None) -> tarfile.TarFile | None:
    """A layer; None of what describes the image."""
    try:
        return tarfile.open(fileobj=blob, mode="r|")
    except tarfile.ReadError:
        return None


def secret_in(path: PurePosixPath, content: bytes) -> str | None:
    """What looks like a secret in a file, or that its name is one's."""
    if SECRET_NAMES.search(str(path)):
        return f"{path}: such a file holds credentials"
    for word, pattern in SECRETS.items():
        if word in content:
            for found in pattern.finditer(content):
                if not EXAMPLES.search(found.group()):
                    return f"{path}: {found.group()[:12]!r}…"
    return None
