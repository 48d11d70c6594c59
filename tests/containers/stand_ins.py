"""The base images: the pinned ones, or stand-ins of Debian's packages without a registry."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.containers.debian import DOCKER_RELEASE, Packages, run
from tests.containers.engine import Engine
from tests.containers.images import build
from tests.paths import ROOT

PINS = ROOT / "containers" / "base_images.env"
HERE = Path(__file__).parent / "bases"
LABEL = "batchmark.stand-in"
# `apt-get update` takes a mirror that does not answer for an empty one.
RETRIES = 'Acquire::Retries "5";'
LISTS = "var/lib/apt/lists"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Smaller and sooner: nobody reads its manuals, and what a crash breaks is made anew.
DPKG_OPTIONS = (
    *(f"path-exclude=/usr/share/{folder}/*" for folder in ("doc", "locale", "man")),
    "force-unsafe-io",
)
# Interrupted, it leaves no mount and no process.
OWN_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# The official image has Python's headers, but neither a compiler nor the C library's.
HEADERS = (
    '--customize-hook=chroot "$1" sh -c "cd /tmp && apt-get -qq download libpython3.11-dev && '
    "dpkg -x libpython3.11-dev_*.deb unpacked && cp -r unpacked/usr/include /usr && "
    'rm -r unpacked libpython3.11-dev_*.deb"'
)


class Recipe(NamedTuple):
    """A Debian that the stand-in of an image begins with."""

    release: str
    packages: tuple[str, ...]
    make: Callable[[Packages, Recipe, Path], None]


def bootstrapped(packages: Packages, recipe: Recipe, root: Path) -> None:
    """A Debian that packages can be installed into, with the lists that apt has read before."""
    programs = packages.root / "usr/bin"
    lists = f'mkdir -p "$1/{LISTS}" && cp {packages.lists}/*_{recipe.release}* "$1/{LISTS}"'
    options = ("--quiet", "--mode=root", "--variant=minbase", "--skip=update")
    run(
        [
            *OWN_NAMESPACES,
            *(str(programs / "mmdebstrap"), *options, f"--setup-hook={lists}", HEADERS),
            *('--aptopt=Acquire::Languages "none"', *map("--dpkgopt={}".format, DPKG_OPTIONS)),
            f"--include={','.join(recipe.packages)}",
            *(recipe.release, str(root), str(packages.sources / f"{recipe.release}.list")),
        ],
        env={"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(root.parent)},
    )


def unpacked(packages: Packages, recipe: Recipe, root: Path) -> None:
    """Debian's files alone: no package's script has run. Without its compiler, which is large."""
    folder = root.with_suffix("")
    folder.mkdir()
    packages.unpack(folder, ("?essential", *recipe.packages), without="libllvm*")
    server = "usr/lib/postgresql/17/lib"
    for left in ("usr/share/doc", "usr/share/locale", "usr/share/man", f"{server}/bitcode"):
        shutil.rmtree(folder / left)
    (folder / server / "llvmjit.so").unlink()
    run(["tar", f"--directory={folder}", "-cf", str(root), "."])


RECIPES = {
    "PYTHON_IMAGE": Recipe(
        "bookworm",
        ("ca-certificates", "netbase", "python3-pip", "python3.11", "python3.11-venv", "tzdata"),
        bootstrapped,
    ),
    "POSTGRES_IMAGE": Recipe(DOCKER_RELEASE, ("postgresql-17", "tzdata"), unpacked),
}


@dataclass(frozen=True)
class Bases:
    """The names under which the engine holds the base images."""

    python: str
    postgres: str
    stand_ins: bool


def pins(text: str) -> dict[str, str]:
    """`PYTHON_IMAGE` and the like with their names and digests, from base_images.env."""
    return dict(re.findall(r"^([A-Z_]+)=(\S+)$", text, re.MULTILINE))


def bases(engine: Engine, folder: Path, say: Callable[[str], None]) -> Bases:
    """Pull the pinned images, or make stand-ins, which `folder` keeps as archives.

    Raises:
        Unavailable: neither a registry nor Debian's archive is reached.
    """
    pinned = pins(PINS.read_text())
    try:
        for name in RECIPES:
            run(["docker", "pull", "--quiet", pinned[name]], env=engine.env)
        return Bases(pinned["PYTHON_IMAGE"], pinned["POSTGRES_IMAGE"], stand_ins=False)
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().rpartition("\n")[2]
        say(f"no registry is reached, so stand-ins take the base images' place ({reason})")
    packages = engine.packages or Packages(folder / "packages", say)
    packages.fetch()
    packages.update()
    # On an engine of others the real names are not ours to give.
    prefix = "" if engine.packages else "batchmark-stand-in/"
    names = {name: prefix + pinned[name].partition("@")[0] for name in RECIPES}
    with ThreadPoolExecutor() as pool:
        roots = pool.map(lambda name: archive(packages, RECIPES[name], folder, say), names)
        for (name, image), root in zip(names.items(), roots, strict=True):
            make(engine, name, image, root)
    return Bases(names["PYTHON_IMAGE"], names["POSTGRES_IMAGE"], stand_ins=True)


def archive(packages: Packages, recipe: Recipe, folder: Path, say: Callable[[str], None]) -> Path:
    """The recipe's root file system as a tar file; made once."""
    text = inspect.getsource(recipe.make) + repr((recipe[:2], DPKG_OPTIONS, HEADERS))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    made = folder / "bases" / f"{recipe.release}-{key}.tar"
    if made.exists():
        return made
    say(f"making a Debian {recipe.release} with {recipe.packages[0]} and others: about a minute")
    work = made.with_suffix(".unfinished")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    unfinished = work / "root.tar"
    try:
        recipe.make(packages, recipe, unfinished)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{error.cmd[0]} failed:\n{error.stderr[-2000:]}") from error
    unfinished.rename(made)
    shutil.rmtree(work)
    return made


def make(engine: Engine, name: str, image: str, root: Path) -> None:
    """Import a root file system and build the stand-in `image` on it."""
    folder = HERE / name.removesuffix("_IMAGE").lower()
    raw = f"batchmark-stand-in/{folder.name}:root"
    run(["docker", "import", str(root), raw], env=engine.env)
    try:
        with tempfile.TemporaryDirectory() as machine:
            describe_machine(Path(machine))
            contexts = {"machine": machine}
            build(engine, image, folder, args={"DEBIAN": raw}, contexts=contexts)
    finally:
        run(["docker", "image", "rm", raw], env=engine.env)


def describe_machine(folder: Path) -> None:
    """What downloads need on this machine: certificates, pip's index, apt's proxy."""
    shutil.copy(CERTIFICATES, folder / "ca-certificates.crt")
    listed = run([sys.executable, "-m", "pip", "config", "list"]).stdout
    (folder / "pip.conf").write_text(pip_conf(listed))
    acquire = run(["apt-config", "dump", "Acquire::http"]).stdout
    settings = [line for line in acquire.splitlines() if "::Proxy" in line] + [RETRIES]
    (folder / "apt.conf").write_text("".join(f"{line}\n" for line in settings))


def pip_conf(listed: str) -> str:
    """pip's settings in a build, from `pip config list`: its indexes, but for this disk's."""
    lines = ["[global]", f"cert = {CERTIFICATES}"]
    for key in ("index-url", "extra-index-url", "trusted-host"):
        found = re.findall(rf"^\S+\.{key}=(.*)$", listed, re.MULTILINE)
        words = [word for text in found for word in ast.literal_eval(text).split()]
        if remote := [word for word in words if not word.startswith(("file:", "/", "."))]:
            lines.append(f"{key} = {' '.join(dict.fromkeys(remote))}")
    return "\n".join(lines) + "\n"


def folders_of_wheels(listed: str) -> list[Path]:
    """The folders of this disk that pip takes wheels from, from `pip config list`."""
    found = re.findall(r"^\S+\.find-links=(.*)$", listed, re.MULTILINE)
    words = [
        word.removeprefix("file://") for text in found for word in ast.literal_eval(text).split()
    ]
    return [Path(word) for word in dict.fromkeys(words) if Path(word).is_dir()]
