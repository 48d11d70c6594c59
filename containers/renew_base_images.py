"""`make base-images`: updates base images' digests wherever they are used."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = Path("containers/base_images.env")
REPEATED_IN = tuple(
    map(
        Path,
        (
            "containers/Dockerfile",
            "docker-compose.yaml",
            "job_container/Dockerfile",
            "job_container/own_jobs/thumbnails/Dockerfile",
        ),
    )
)
DIGEST = r"sha256:[0-9a-f]{64}"
PIN = re.compile(rf"^[A-Z_]+=(?P<image>\S+)@{DIGEST}$", re.MULTILINE)
ANSWER_SECONDS = 60  # judgment: enough for a slow registry; a silent one must not hang `make`


class DigestError(Exception):
    """An image's current digest can't be determined."""


def main(root: Path = ROOT) -> int:
    before = {file: root.joinpath(file).read_text() for file in (PINS, *REPEATED_IN)}
    try:
        require_buildx()
        images = [pin["image"] for pin in PIN.finditer(before[PINS])]
        digests = {image: newest_digest(image) for image in images}
    except DigestError as error:
        print(f"base-images: nothing was changed: {error}", file=sys.stderr)
        return 1
    after, lines = before, []
    for image, digest in digests.items():
        renewed = {file: with_digest(text, image, digest) for file, text in after.items()}
        changed = ", ".join(str(file) for file in after if renewed[file] != after[file])
        lines.append(f"{image}@{digest}: {f'renewed in {changed}' if changed else 'unchanged'}")
        after = renewed
    for file, text in after.items():
        if text != before[file]:
            root.joinpath(file).write_text(text)
    print(*lines, sep="\n")
    return 0


def require_buildx() -> None:
    if shutil.which("docker") is None:
        raise DigestError("docker is not on the PATH")
    if buildx("version").returncode:
        raise DigestError("Docker's buildx plugin is not installed: install it first")


def newest_digest(image: str) -> str:
    """Return a tag's current digest from its registry (the index's for a multi-platform image).

    Raises:
        DigestError: the image has no tag, or its registry returns no digest.
    """
    if ":" not in image.rpartition("/")[2]:
        raise DigestError(
            f"{image!r} has no tag, so its newest image cannot be determined: add a tag"
        )
    # Without `json` buildx ignores the template and prints a table.
    done = buildx("imagetools", "inspect", "--format", "{{json .Manifest.Digest}}", image)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"buildx ended with code {done.returncode}"]
        raise DigestError(f"{image}: {said[-1]}")
    try:
        digest = str(json.loads(done.stdout))
    except ValueError:
        digest = done.stdout
    if not re.fullmatch(DIGEST, digest):
        raise DigestError(f"{image}: buildx returned {digest!r} instead of a digest")
    return digest


def buildx(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["docker", "buildx", *words]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise DigestError(f"{words[-1]}: no response within {ANSWER_SECONDS} s") from None


def with_digest(text: str, image: str, digest: str) -> str:
    """Return the text with this digest wherever the image is pinned."""
    return re.sub(rf"(?<![\w./-]){re.escape(image)}@{DIGEST}", f"{image}@{digest}", text)


if __name__ == "__main__":
    sys.exit(main())
