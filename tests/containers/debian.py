"""Debian's packages, downloaded and unpacked into a folder: nothing is installed."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path

# Docker with BuildKit's named contexts and Compose v2 is in this release and later ones.
DOCKER_RELEASE = "trixie"
RELEASES = ("bookworm", DOCKER_RELEASE)
# Go programs run on an older C library; what is linked to other libraries is of our own release.
FROM_DOCKER_RELEASE = ("containerd", "docker-buildx", "docker-cli", "docker-compose", "docker.io")
FROM_OWN_RELEASE = (
    *("iptables", "libip4tc2", "libip6tc2", "libmnl0", "libnetfilter-conntrack3"),
    *("libnfnetlink0", "libnftnl11", "libseccomp2", "libxtables12", "mmdebstrap", "runc", "tini"),
)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):  # noqa: N818 (a reason to skip, not an error)
    """No container engine can be had here; the message is one line that says why."""


def own_release(os_release: str) -> str:
    """The code name of this Debian, from the text of /etc/os-release."""
    fields = dict(
        line.replace('"', "").split("=", 1) for line in os_release.splitlines() if "=" in line
    )
    name = fields.get("VERSION_CODENAME", "")
    if fields.get("ID") != "debian" or name not in RELEASES:
        seen = fields.get("PRETTY_NAME", "an unknown system")
        raise Unavailable(
            f"no Docker engine answers, and one of our own needs Debian 12 or 13, not {seen}"
        )
    return name


def source_list(release: str, wanted: str) -> str:
    """Where this machine gets its own release, made to name another one."""
    asked = ("--no-release-info", "--format=$(REPO_URI) $(RELEASE) $(COMPONENT)")
    told = run(["apt-get", "indextargets", *asked, "Created-By: Packages"]).stdout
    known = {release, *(f"{release}-{part}" for part in ("security", "updates"))}
    found = {
        f"deb [signed-by={KEYRING}] {uri} {suite.replace(release, wanted)} {component}\n"
        for uri, suite, component in map(str.split, told.splitlines())
        if suite in known
    }
    if not found:
        raise Unavailable(f"apt knows no source of {release}")
    return "".join(sorted(found))


class Packages:
    """Debian packages of this and of Docker's release, unpacked below `folder`.

    Args:
        folder: kept between runs; a second call finds all there.
        say: is told what takes long.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        for program in ("apt-get", "dpkg"):
            if shutil.which(program) is None:
                raise Unavailable(f"no Docker engine answers, and {program} is not here to get one")
        self.release = own_release(Path("/etc/os-release").read_text())
        self._state = folder / "apt"
        self._updated = False

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def sources(self) -> Path:
        return self.folder / "sources"

    @property
    def lists(self) -> Path:
        """What the sources had when they were asked."""
        return self._state / "state/lists"

    def fetch(self) -> None:
        """Download and unpack, unless that is done.

        Raises:
            Unavailable: Debian's archive can't be reached.
        """
        wanted = [f"{name}/{DOCKER_RELEASE}" for name in FROM_DOCKER_RELEASE]
        wanted += [f"{name}/{self.release}" for name in FROM_OWN_RELEASE]
        recipe = hashlib.sha256(" ".join(wanted).encode()).hexdigest()
        stamp = self.folder / "unpacked"
        if stamp.exists() and stamp.read_text() == recipe:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        archives = self.folder / "archives"
        for made in (self.root, self.sources, archives):
            made.mkdir(parents=True)
        for release in RELEASES:
            (self.sources / f"{release}.list").write_text(source_list(self.release, release))
        self.say("downloading Docker and what it needs from Debian, about 95 MB")
        self.update()
        self._apt("download", *wanted, cwd=archives)
        for archive in archives.glob("*.deb"):
            run(["dpkg", "-x", str(archive), str(self.root)])
        shutil.rmtree(archives)
        stamp.write_text(recipe)

    def update(self) -> None:
        """Ask Debian what it has now, unless that was asked."""
        if not self._updated:
            self._apt("update")
            self._updated = True

    def unpack(self, root: Path, names: Iterable[str], without: str) -> None:
        """Packages of Docker's release with all that they depend on, and what every Debian has.

        Args:
            without: pattern of the names of packages that are left out.
        """
        self._apt("install", "--download-only", "--yes", "--no-install-recommends", *names)
        for archive in (self._state / "cache/archives").glob("*.deb"):
            if not fnmatch(archive.name, without):
                run(["dpkg", "-x", str(archive), str(root)])
            archive.unlink()

    def _apt(self, *words: str, cwd: Path | None = None) -> None:
        state = self._state
        for made in ("state/lists/partial", "cache/archives/partial"):
            (state / made).mkdir(parents=True, exist_ok=True)
        status = state / "status"
        status.touch()
        options = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self.sources,
            "Dir::State": state / "state",
            "Dir::State::status": status,
            "Dir::Cache": state / "cache",
            "APT::Sandbox::User": "root",
        }
        flags = [f"-o{name}={value}" for name, value in options.items()]
        try:
            run(["apt-get", "-qq", *flags, *words], cwd=cwd)
        except subprocess.CalledProcessError as error:
            end = (error.stderr.strip().splitlines() or ["no message"])[-1]
            raise Unavailable(f"no Docker engine answers, and apt can't get one: {end}") from error


def run(
    argv: Iterable[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, its output kept.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    return subprocess.run(
        list(argv),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
