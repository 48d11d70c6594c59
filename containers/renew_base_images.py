"""Renews the base images' digests, here and where they are repeated: `make base-images`.

Asks the registries themselves, so no Docker engine is needed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
PINS = Path("containers/base_images.env")
REPEATED_IN = tuple(
    map(Path, ("containers/Dockerfile", "docker-compose.yaml", "job_container/Dockerfile"))
)
DOCKER_HUB = "registry-1.docker.io"
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
PIN = re.compile(r"^[A-Z_]+=(?P<image>\S+)@(?P<digest>sha256:[0-9a-f]{64})$", re.MULTILINE)


class RegistryError(Exception):
    """A registry does not say what an image's digest is."""


@dataclass(frozen=True)
class Image:
    """An image's place: `python:3.11` is `library/python` of Docker Hub, tag `3.11`."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def named(cls, name: str) -> Image:
        path, _, tag = name.rpartition(":")
        if not path or "/" in tag:
            raise RegistryError(f"{name!r} has no tag, so nothing says which image is its newest")
        first, _, rest = path.partition("/")
        if rest and ("." in first or ":" in first):
            return cls(first, rest, tag)
        return cls(DOCKER_HUB, path if rest else f"library/{path}", tag)

    @property
    def manifest(self) -> str:
        scheme = "http" if self.registry.startswith("127.") else "https"
        return f"{scheme}://{self.registry}/v2/{self.repository}/manifests/{self.tag}"


def main(root: Path = ROOT) -> int:
    text = root.joinpath(PINS).read_text()
    try:
        with httpx.Client(timeout=30, follow_redirects=True) as http:
            renewed = {pin["image"]: digest(http, pin["image"]) for pin in PIN.finditer(text)}
    except (RegistryError, httpx.HTTPError) as error:
        print(f"base-images: nothing is changed: {error}", file=sys.stderr)
        return 1
    for image, now in renewed.items():
        changed = [file for file in (PINS, *REPEATED_IN) if replace(root / file, image, now)]
        where = f"renewed in {', '.join(map(str, changed))}" if changed else "as it was"
        print(f"{image}@{now}: {where}")
    return 0


def digest(http: httpx.Client, name: str) -> str:
    """The digest that a registry gives a tag now; of all platforms where it has several.

    Raises:
        RegistryError: it does not know the image, or gives it to nobody unknown.
    """
    url = Image.named(name).manifest
    accept = {"Accept": ", ".join(MANIFESTS)}
    answer = http.head(url, headers=accept)
    if answer.status_code == 401:
        token = anonymous_token(http, answer.headers.get("WWW-Authenticate", ""))
        answer = http.head(url, headers={**accept, "Authorization": f"Bearer {token}"})
    found: str = answer.headers.get("Docker-Content-Digest", "")
    if answer.status_code != 200 or not found.startswith("sha256:"):
        raise RegistryError(f"{url} answers {answer.status_code} and no digest of {name}")
    return found


def anonymous_token(http: httpx.Client, challenge: str) -> str:
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not challenge.startswith("Bearer ") or "realm" not in fields:
        raise RegistryError(
            f"the registry wants credentials of a kind we don't have: {challenge!r}"
        )
    answer = http.get(fields.pop("realm"), params=fields).raise_for_status().json()
    token: str = answer.get("token") or answer.get("access_token", "")
    return token


def replace(file: Path, image: str, now: str) -> bool:
    """Write the digest beside each mention of the image; whether that changed the file."""
    before = file.read_text()
    after = re.sub(
        rf"(?<![\w./-]){re.escape(image)}@sha256:[0-9a-f]{{64}}", f"{image}@{now}", before
    )
    if changed := after != before:
        file.write_text(after)
    return changed


if __name__ == "__main__":
    sys.exit(main())
