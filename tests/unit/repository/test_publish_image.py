"""publish.sh with stand-ins for what it starts; they note how they were called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "job_container" / "publish.sh"

REGISTRY = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
REPOSITORY = f"{REGISTRY}/batchmark-job"
TAG = "3.2.1-1a2b3c4"
IMAGE = f"{REPOSITORY}:{TAG}"
CPU_IMAGE = f"{IMAGE}-cpu"
DIGEST = "sha256:" + "d1" * 32
CPU_DIGEST = "sha256:" + "c1" * 32
COMMIT = "1a2b3c4d" * 5
BASE = "python:3.11-slim-bookworm@sha256:" + "ba" * 32
IMAGE_ID = "sha256:" + "1d" * 32
LAYER = "sha256:" + "7a" * 32
MANIFEST = f"""{{
   "schemaVersion": 2,
   "config": {{ "mediaType": "application/x", "size": 7, "digest": "{IMAGE_ID}" }},
   "layers": [ {{ "mediaType": "application/y", "size": 9, "digest": "{LAYER}" }} ]
}}"""
NOT_FOUND = (
    "An error occurred (ImageNotFoundException) when calling the DescribeImages operation: "
    "The image with imageId does not exist"
)

# Each notes its name and arguments, then runs the answers there are for them, the latest first.
STAND_IN = """#!/bin/sh
# A login notes itself once its input has ended, and in one write: it runs beside what feeds it.
[ "$*" = "login --username AWS --password-stdin $REGISTRY" ] && cat >"$PASSWORD"
printf '%s\\n' "$(basename "$0") $*" >>"$CALLS"
for answer in "$ANSWERS/$(basename "$0")"-*.sh; do
  [ -f "$answer" ] && . "$answer"
done
exit 0
"""


@dataclass
class Machine:
    """A checkout with the script, and a PATH with stand-ins that answer as told."""

    folder: Path

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def calls(self) -> list[str]:
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def answer(self, command: str, shell: str) -> None:
        """Let a stand-in run `shell` for arguments that begin as `command`; the last one wins."""
        program, _, arguments = command.partition(" ")
        folder = self.folder / "answers"
        place = 99 - len(list(folder.iterdir()))
        (folder / f"{program}-{place:02}.sh").write_text(
            f"case \"$*\" in '{arguments}'*) {shell} ;; esac\n"
        )

    def remove(self, program: str) -> None:
        (self.bin / program).unlink()

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.checkout / "job_container" / "publish.sh"), *arguments],
            env={
                "PATH": str(self.bin),
                "HOME": str(self.folder),
                "REGISTRY": REGISTRY,
                "CALLS": str(self.folder / "calls"),
                "PASSWORD": str(self.folder / "password"),
                "ANSWERS": str(self.folder / "answers"),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    (machine.checkout / "job_container").mkdir(parents=True)
    (machine.checkout / "terraform").mkdir()
    shutil.copy(SCRIPT, machine.checkout / "job_container")
    (machine.checkout / "pyproject.toml").write_text('[project]\nversion = "3.2.1"\n')
    (machine.checkout / "containers").mkdir()
    bases = machine.checkout / "containers" / "base_images.env"
    bases.write_text(f"# A comment.\nPYTHON_IMAGE={BASE}\nPOSTGRES_IMAGE=postgres@sha256:0\n")
    (tmp_path / "answers").mkdir()
    machine.bin.mkdir()
    for program in ("docker", "aws", "terraform", "git"):
        (machine.bin / program).write_text(STAND_IN)
        (machine.bin / program).chmod(0o755)
    for program in ("bash", "basename", "cat", "date", "dirname", "env", "grep", "sed", "sh"):
        (machine.bin / program).symlink_to(str(shutil.which(program)))
    for program in ("tr", "wc"):
        (machine.bin / program).symlink_to(str(shutil.which(program)))
    root = machine.checkout
    machine.answer(f"git -C {root} rev-parse HEAD", f"echo {COMMIT}")
    machine.answer(f"git -C {root} rev-parse --short", "echo 1a2b3c4")
    machine.answer(f"terraform -chdir={root}/terraform output", f"printf {REPOSITORY}")
    # The tags are free until the push.
    machine.answer(
        "aws ecr describe-images",
        "tag=${*#*imageTag=}; tag=${tag%% *}; digest="
        f'{DIGEST}; [ "$tag" = "${{tag%-cpu}}" ] || digest={CPU_DIGEST}; '
        f'if grep -q "^docker push {REPOSITORY}:$tag\\$" "$CALLS"; then echo $digest; '
        f"else echo '{NOT_FOUND}' >&2; exit 254; fi",
    )
    machine.answer("aws ecr batch-get-image", f"echo '{MANIFEST}'")
    machine.answer("aws ecr get-login-password", "echo secret")
    machine.answer("docker image inspect", "echo 1234567890")
    return machine


def commands_of(calls: list[str]) -> list[str]:
    """Without the checks of git and the daemon."""
    return [call for call in calls if not call.startswith(("git ", "docker version"))]


def questions(tag: str) -> tuple[str, str]:
    """To ECR: a tag's digest, and its manifest."""
    of_tag = (
        f"--region eu-west-1 --repository-name batchmark-job --image-ids imageTag={tag} --query"
    )
    return (
        f"aws ecr describe-images {of_tag} imageDetails[0].imageDigest --output text",
        f"aws ecr batch-get-image {of_tag} images[0].imageManifest --output text",
    )


def after_a_push(image: str) -> list[str]:
    size = f"docker image inspect --format {{{{.Size}}}} {image}"
    return [f"docker push {image}", *questions(image.partition(":")[2]), size]


def test_it_builds_both_logs_in_and_pushes_in_this_order(machine: Machine) -> None:
    result = machine.run()

    assert result.returncode == 0, result.stderr
    calls = [re.sub(r"CREATED=\S+", "CREATED=now", call) for call in commands_of(machine.calls)]
    build = f"docker build --platform linux/amd64 --build-arg PYTHON_IMAGE={BASE} --build-arg BASE_NAME=python:3.11-slim-bookworm --build-arg BASE_DIGEST=sha256:{'ba' * 32} --build-arg VERSION=3.2.1 --build-arg REVISION={COMMIT} --build-arg CREATED=now"  # noqa: E501
    assert calls == [
        f"terraform -chdir={machine.checkout}/terraform output -no-color -raw ecr_repository_url",
        questions(f"{TAG}-cpu")[0],
        questions(TAG)[0],
        f"{build} --target cpu --tag {CPU_IMAGE} {machine.checkout}/job_container",
        f"{build} --target gpu --tag {IMAGE} {machine.checkout}/job_container",
        "aws ecr get-login-password --region eu-west-1",
        f"docker login --username AWS --password-stdin {REGISTRY}",
        *after_a_push(CPU_IMAGE),
        *after_a_push(IMAGE),
    ]
    assert (machine.folder / "password").read_text() == "secret\n"
    assert "secret" not in result.stdout + result.stderr


def test_the_labels_say_when_and_from_where(machine: Machine) -> None:
    """An origin's user name or token must not get into an image."""
    root = machine.checkout
    machine.answer(f"git -C {root} remote get-url", "echo https://me:token@git.example.org/a/b.git")
    result = machine.run("--allow-dirty")
    builds = [call for call in machine.calls if call.startswith("docker build")]
    for build in builds:
        assert " --label org.opencontainers.image.source=https://git.example.org/a/b.git " in build
        (created,) = re.findall(r"CREATED=(\S+)", build)
        assert abs(datetime.now(UTC) - datetime.fromisoformat(created)) < timedelta(hours=1)
    assert len(builds) == 2
    assert "token" not in result.stderr
    (machine.folder / "calls").unlink()
    machine.answer(f"git -C {root} remote get-url", "echo git@git.example.org:a/b.git")
    machine.answer(f"git -C {root} status", "echo ' M a.py'")
    assert machine.run("--allow-dirty", "try-3").returncode == 0
    (build, _) = [call for call in machine.calls if call.startswith("docker build")]
    assert "image.source" not in build
    assert f"REVISION={COMMIT}-dirty" in build


@pytest.mark.parametrize("line", ["", "PYTHON_IMAGE=python:3.11-slim-bookworm"])
def test_a_base_image_without_a_digest_is_refused(machine: Machine, line: str) -> None:
    bases = machine.checkout / "containers" / "base_images.env"
    bases.write_text(line)
    assert f'says PYTHON_IMAGE="{line[13:]}"; it must name' in refused(machine.run(), machine)
    bases.unlink()
    assert 'says PYTHON_IMAGE=""' in refused(machine.run(), machine)


def test_it_prints_each_command_before_it_runs(machine: Machine) -> None:
    """Seen from a failing build: what comes after it is not printed."""
    machine.answer("docker build", "echo 'no space left' >&2; exit 1")

    result = machine.run()

    assert result.returncode == 1
    printed = [line for line in result.stderr.splitlines() if line.startswith("+ ")]
    assert [line.split()[1:3] for line in printed] == [
        ["terraform", "-chdir=terraform"],
        ["docker", "version"],
        ["aws", "ecr"],
        ["aws", "ecr"],
        ["env", "BUILDX_NO_DEFAULT_ATTESTATIONS=1"],
    ]
    assert result.stderr.index("+ env") < result.stderr.index("no space left")
    assert "docker build failed; nothing was pushed" in result.stderr.splitlines()[-1]
    assert not any(call.startswith(("docker login", "docker push")) for call in machine.calls)


def test_its_end_names_digests_sizes_and_the_line_that_uses_them(machine: Machine) -> None:
    lines = machine.run().stdout.splitlines()
    for image, digest in ((CPU_IMAGE, CPU_DIGEST), (IMAGE, DIGEST)):
        place = lines.index(f"Pushed {image}")
        assert [line.strip() for line in lines[place + 1 : place + 4]] == [
            f"Digest in ECR: {digest}",
            f"Its image_digest in results: {IMAGE_ID}",
            "Its size, unpacked: 1234 MB",
        ]
    assert lines[-1].strip() == "terraform apply"


def test_the_digests_are_pinned_for_every_later_apply(machine: Machine) -> None:
    pin = machine.checkout / "terraform" / "image.auto.tfvars"
    machine.run("--dry-run")
    assert not pin.exists()
    other = machine.run("--repository", REPOSITORY)
    assert other.stdout.splitlines()[-1].strip() == (
        f"terraform apply -var image_tag={DIGEST} -var cpu_image_tag={CPU_DIGEST}"
    )
    assert not pin.exists(), "that repository may be another stack's"
    (machine.folder / "calls").unlink()
    machine.run()
    assert pin.read_text() == f'image_tag     = "{DIGEST}"\ncpu_image_tag = "{CPU_DIGEST}"\n'


def test_a_manifest_that_may_not_be_read_stops_nothing(machine: Machine) -> None:
    machine.answer("aws ecr batch-get-image", "echo AccessDenied >&2; exit 254")
    result = machine.run()
    assert result.returncode == 0, result.stderr
    assert [call for call in machine.calls if "docker push" in call] == [
        f"docker push {CPU_IMAGE}",
        f"docker push {IMAGE}",
    ]
    assert "Its image_digest in results" not in result.stdout
    assert DIGEST in (machine.checkout / "terraform" / "image.auto.tfvars").read_text()


def test_what_an_earlier_try_pushed_stays(machine: Machine) -> None:
    (machine.folder / "calls").write_text(f"docker push {CPU_IMAGE}\n")
    result = machine.run()
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"{TAG}-cpu exists already, as {CPU_DIGEST}: it stays."
    begun = [call.split()[:2] for call in machine.calls[1:] if call.startswith("docker")]
    assert begun.count(["docker", "build"]) == begun.count(["docker", "push"]) == 1
    pin = machine.checkout / "terraform" / "image.auto.tfvars"
    assert CPU_DIGEST in pin.read_text()


def test_repository_and_tag_can_be_given(machine: Machine) -> None:
    machine.remove("terraform")
    by_argument = machine.run("--repository", REPOSITORY, "try-1")
    assert f"Pushed {REPOSITORY}:try-1" in by_argument.stdout, by_argument.stderr
    (machine.folder / "calls").unlink()
    by_environment = machine.run(ECR_REPOSITORY_URL=REPOSITORY, IMAGE_TAG="try-2")
    assert f"Pushed {REPOSITORY}:try-2" in by_environment.stdout, by_environment.stderr


def test_dry_run_prints_and_runs_nothing(machine: Machine) -> None:
    machine.remove("docker")
    machine.remove("aws")

    result = machine.run("--dry-run")

    assert result.returncode == 0, result.stderr
    assert {call.split()[0] for call in machine.calls} == {"git", "terraform"}
    for command in (
        f"--target gpu --tag {IMAGE} ",
        f"--target cpu --tag {CPU_IMAGE} ",
        f"docker login --username AWS --password-stdin {REGISTRY}",
        f"+ docker push {IMAGE}",
        f"+ docker push {CPU_IMAGE}",
    ):
        assert command in result.stderr
    assert "Nothing was run" in result.stdout


def refused(result: subprocess.CompletedProcess[str], machine: Machine) -> str:
    """The message of a refusal before anything was built or pushed."""
    assert result.returncode != 0
    assert result.stdout == ""
    assert not any(
        call.startswith(("docker build", "docker push", "docker login")) for call in machine.calls
    )
    return result.stderr


def test_changes_that_are_not_committed_are_refused(machine: Machine) -> None:
    machine.answer(f"git -C {machine.checkout} status", "echo ' M a.py'; echo '?? b.py'")

    message = refused(machine.run(), machine)
    assert "2 files differ from the last commit" in message
    assert "--allow-dirty" in message

    allowed = machine.run("--allow-dirty")
    assert f"Pushed {IMAGE}-dirty" in allowed.stdout, allowed.stderr


def test_a_tag_that_exists_is_refused_with_its_digests(machine: Machine) -> None:
    (machine.folder / "calls").write_text(f"docker push {IMAGE}\ndocker push {CPU_IMAGE}\n")
    result = machine.run()
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{IMAGE} exists already, as {DIGEST}, and for CPU targets as" in result.stderr
    assert f'  image_tag     = "{DIGEST}"\n  cpu_image_tag = "{CPU_DIGEST}"\n' in result.stderr
    assert not any(call.startswith("docker build") for call in machine.calls)


@pytest.mark.parametrize("program", ["docker", "aws", "terraform", "git"])
def test_a_missing_program_is_named_in_one_line(machine: Machine, program: str) -> None:
    machine.remove(program)
    (line,) = refused(machine.run(), machine).splitlines()
    assert f"{program} is needed and not on the PATH" in line


def test_a_daemon_that_does_not_answer_is_named(machine: Machine) -> None:
    machine.answer("docker version", "echo 'Cannot connect' >&2; exit 1")
    assert "Docker's daemon can't be reached" in refused(machine.run(), machine)


def test_terraform_that_was_never_applied_is_named(machine: Machine) -> None:
    machine.answer("terraform", "echo 'Output \"ecr_repository_url\" not found' >&2; exit 1")
    message = refused(machine.run(), machine)
    assert 'Output "ecr_repository_url" not found' in message
    assert "there is no repository yet" in message.splitlines()[-1]
    assert "terraform apply" in message.splitlines()[-1]


def test_a_repository_that_is_gone_is_named(machine: Machine) -> None:
    machine.answer("aws ecr describe-images", "echo '(RepositoryNotFoundException)' >&2; exit 254")
    message = refused(machine.run(), machine)
    assert "there is no repository batchmark-job in eu-west-1" in message


def test_what_else_aws_says_is_passed_on(machine: Machine) -> None:
    machine.answer("aws ecr describe-images", "echo 'Unable to locate credentials' >&2; exit 253")
    message = refused(machine.run(), machine)
    assert "check your credentials" in message
    assert "Unable to locate credentials" in message


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--repository", "docker.io/library/job"), 'the repository is "docker.io/library/job"'),
        (("--repository",), "--repository needs a URL"),
        (("a tag",), 'the tag is "a tag"'),
        (("--push",), "unknown option --push"),
    ],
)
def test_bad_arguments_are_refused(machine: Machine, arguments: tuple[str, ...], told: str) -> None:
    result = machine.run(*arguments)
    assert told in refused(result, machine)
    assert result.returncode == 2


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("aws ecr get-login-password", f"logging in to {REGISTRY} failed; nothing was pushed"),
        ("docker login", f"logging in to {REGISTRY} failed; nothing was pushed"),
        ("docker push", "Run this again: layers that arrived are not sent twice"),
    ],
)
def test_a_command_that_fails_ends_it_and_says_what_to_do(
    machine: Machine, command: str, told: str
) -> None:
    machine.answer(command, "echo denied >&2; exit 1")
    result = machine.run()
    assert result.returncode == 1
    assert result.stdout == ""
    assert told in result.stderr
    assert not any("batch-get-image" in call for call in machine.calls)


def test_an_image_without_a_digest_is_not_called_published(machine: Machine) -> None:
    machine.answer(
        "aws ecr describe-images",
        f"if grep -q '^docker push' \"$CALLS\"; then echo None; "
        f"else echo '{NOT_FOUND}' >&2; exit 254; fi; exit 0",
    )
    result = machine.run()
    assert result.returncode == 1
    assert "terraform apply" not in result.stdout
    assert 'ECR gives "None" as the digest' in refused_later(result, machine)


def refused_later(first: subprocess.CompletedProcess[str], machine: Machine) -> str:
    """The next try's message, too: what ECR has no digest of is not pinned either."""
    assert "was pushed, but ECR gives" in first.stderr
    return machine.run().stderr


def test_shellcheck_finds_nothing() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    result = subprocess.run(
        [str(shellcheck), str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


def test_it_can_be_started() -> None:
    assert os.access(SCRIPT, os.X_OK)
