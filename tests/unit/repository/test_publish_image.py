"""publish.sh with stand-ins for the programs it runs, which record how they were called."""

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from tests.builders.files import program
from tests.documented import recipe, the_command
from tests.paths import ROOT

SCRIPT = ROOT / "job_container" / "publish.sh"

REGISTRY = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
REPOSITORY = f"{REGISTRY}/batchmark-job"
TAG = "3.2.1-1a2b3c4"
IMAGE = f"{REPOSITORY}:{TAG}"
CPU_IMAGE = f"{IMAGE}-cpu"
DIGEST = "sha256:" + "d1" * 32
CPU_DIGEST = "sha256:" + "c1" * 32
PIN = f'image_tag     = "{DIGEST}"\ncpu_image_tag = "{CPU_DIGEST}"\n'
COMMIT = "1a2b3c4d" * 5
BASE = "python:3.11-slim-bookworm@sha256:" + "ba" * 32
IMAGE_ID = "sha256:" + "1d" * 32
METADATA = f"""{{
  "buildx.build.ref": "default/default/x",
  "containerimage.config.digest": "{IMAGE_ID}",
  "containerimage.digest": "{DIGEST}"
}}"""
NOT_FOUND = (
    "An error occurred (ImageNotFoundException) when calling the DescribeImages operation: "
    "The image with imageId does not exist"
)

# Each records its name and arguments, then runs the answers there are for them, the latest first.
STAND_IN = """
# A login records itself when its input ends, and in one write: it runs beside what feeds it.
[ "$*" = "login --username AWS --password-stdin $REGISTRY" ] && cat >"$PASSWORD"
printf '%s\\n' "$(basename "$0") $*" >>"$CALLS"
for answer in "$ANSWERS/$(basename "$0")"-*.sh; do
  [ -f "$answer" ] && . "$answer"
done
exit 0
"""
# The tag asked for, and its digest once the image was pushed.
DIGEST_OF_TAG = f"""tag=${{*#*imageTag=}}; tag=${{tag%% *}}; digest={DIGEST}
[ "$tag" = "${{tag%-cpu}}" ] || digest={CPU_DIGEST}
if grep -q -- "--tag {REPOSITORY}:$tag " "$CALLS"; then echo $digest
else echo '{NOT_FOUND}' >&2; exit 254; fi"""
WRITE_METADATA = f"""file=${{*#*--metadata-file }}; echo '{METADATA}' >"${{file%% *}}\""""


TOOLS = (
    *("basename", "bash", "cat", "date", "dirname", "grep"),
    *("mktemp", "rm", "sed", "sh", "tr", "wc"),
)


class Machine:
    """A checkout with the script, and a PATH with stand-ins that answer as told."""

    def __init__(self, folder):
        self.folder, self.checkout, self.bin = folder, folder / "checkout", folder / "bin"
        self.pin = self.checkout / "terraform" / "image.auto.tfvars"

    @property
    def calls(self):
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def builds(self):
        return [call for call in self.calls if call.startswith("docker buildx build")]

    def answer(self, command, shell):
        """Let a stand-in run `shell` for arguments that begin as `command`; the last one wins."""
        program, _, arguments = command.partition(" ")
        folder = self.folder / "answers"
        place = 99 - len(list(folder.iterdir()))
        (folder / f"{program}-{place:02}.sh").write_text(
            f"case \"$*\" in '{arguments}'*) {shell} ;; esac\n"
        )

    def have_pushed(self, *images):
        """As if earlier calls had pushed these images and no others."""
        (self.folder / "calls").write_text("".join(f"docker --tag {image} x\n" for image in images))

    def run(self, *arguments, **environment):
        return subprocess.run(
            [str(self.checkout / "job_container" / "publish.sh"), *arguments],
            env={
                "PATH": str(self.bin),
                "HOME": str(self.folder),
                "TMPDIR": str(self.folder),
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

    def publishes(self, *arguments, **environment):
        """What it says when it ends well."""
        result = self.run(*arguments, **environment)
        assert result.returncode == 0, result.stderr
        return result

    def refused(self, *arguments, code=1):
        """The message of a refusal, before anybody logs in, builds or pushes."""
        result = self.run(*arguments)
        assert result.returncode == code
        assert result.stdout == ""
        assert not [
            call for call in self.calls if call.startswith(("docker buildx build", "docker login"))
        ]
        return result.stderr


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    root = machine.checkout
    for folder in ("job_container", "terraform", "containers"):
        (root / folder).mkdir(parents=True)
    shutil.copy(SCRIPT, root / "job_container")
    (root / "pyproject.toml").write_text('[project]\nversion = "3.2.1"\n')
    bases = root / "containers" / "base_images.env"
    bases.write_text(f"# A comment.\nPYTHON_IMAGE={BASE}\nPOSTGRES_IMAGE=postgres@sha256:0\n")
    (tmp_path / "answers").mkdir()
    machine.bin.mkdir()
    for name in ("docker", "aws", "terraform", "git"):
        program(machine.bin / name, STAND_IN)
    for name in TOOLS:
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    machine.answer(f"git -C {root} rev-parse HEAD", f"echo {COMMIT}")
    machine.answer(f"git -C {root} rev-parse --short", "echo 1a2b3c4")
    machine.answer(f"terraform -chdir={root}/terraform output", f"printf {REPOSITORY}")
    machine.answer("aws ecr describe-images", DIGEST_OF_TAG)
    machine.answer("aws ecr get-login-password", "echo secret")
    machine.answer("docker buildx build", WRITE_METADATA)
    return machine


def question(tag):
    """What ECR is asked about a tag."""
    return (
        "aws ecr describe-images --region eu-west-1 --repository-name batchmark-job "
        f"--image-ids imageTag={tag} --query imageDetails[0].imageDigest --output text"
    )


def test_it_logs_in_and_builds_and_pushes_both_in_this_order(machine):
    assert recipe(the_command("make image")) == "job_container/publish.sh\n"
    result = machine.publishes()
    calls = [call for call in machine.calls if not call.startswith("git ")]
    calls = [re.sub(r"CREATED=\S+", "CREATED=now", call) for call in calls]
    calls = [re.sub(r"metadata-file \S+", "metadata-file FILE", call) for call in calls]
    build = f"docker buildx build --push --platform linux/amd64 --provenance=false --metadata-file FILE --build-arg PYTHON_IMAGE={BASE} --build-arg BASE_NAME=python:3.11-slim-bookworm --build-arg BASE_DIGEST=sha256:{'ba' * 32} --build-arg VERSION=3.2.1 --build-arg REVISION={COMMIT} --build-arg CREATED=now"  # noqa: E501
    assert calls == [
        "docker version",
        "docker buildx version",
        f"terraform -chdir={machine.checkout}/terraform output -no-color -raw ecr_repository_url",
        question(f"{TAG}-cpu"),
        question(TAG),
        "aws ecr get-login-password --region eu-west-1",
        f"docker login --username AWS --password-stdin {REGISTRY}",
        f"{build} --target cpu --tag {CPU_IMAGE} {machine.checkout}/job_container",
        question(f"{TAG}-cpu"),
        f"{build} --target gpu --tag {IMAGE} {machine.checkout}/job_container",
        question(TAG),
        f"docker logout {REGISTRY}",
    ]
    assert (machine.folder / "password").read_text() == "secret\n"
    assert "secret" not in result.stdout + result.stderr
    assert not list(machine.folder.glob("tmp*")), "it removes its file"
    lines = [line.strip() for line in result.stdout.splitlines()]
    for image, digest in ((CPU_IMAGE, CPU_DIGEST), (IMAGE, DIGEST)):
        place = lines.index(f"Pushed {image}")
        assert lines[place + 1 : place + 3] == [
            f"Digest in ECR: {digest}",
            f"Its image_digest in results: {IMAGE_ID}",
        ]
    assert lines[-1] == "terraform apply"
    assert machine.pin.read_text() == PIN


def test_the_labels_say_when_and_from_where(machine):
    """An origin's user name or token must not get into an image."""
    root = machine.checkout
    machine.answer(f"git -C {root} remote get-url", "echo https://me:token@git.example.org/a/b.git")
    result = machine.run("--allow-dirty")
    for build in machine.builds:
        assert " --label org.opencontainers.image.source=https://git.example.org/a/b.git " in build
        (created,) = re.findall(r"CREATED=(\S+)", build)
        assert abs(datetime.now(UTC) - datetime.fromisoformat(created)) < timedelta(hours=1)
    assert len(machine.builds) == 2
    assert "token" not in result.stderr
    machine.have_pushed()
    machine.answer(f"git -C {root} remote get-url", "echo git@git.example.org:a/b.git")
    machine.answer(f"git -C {root} status", "echo ' M a.py'")
    machine.publishes("--allow-dirty", "try-3")
    (build, _) = machine.builds
    assert "image.source" not in build
    assert f"REVISION={COMMIT}-dirty" in build


def test_each_command_is_shown_before_it_runs(machine):
    """Seen from a failing build: what would come after it is not shown."""
    machine.answer("docker buildx build", "echo 'no space left' >&2; exit 1")

    result = machine.run()

    assert (result.returncode, result.stdout) == (1, "")
    shown = [line for line in result.stderr.splitlines() if line.startswith("+ ")]
    assert [line.split()[1:4] for line in shown] == [
        ["terraform", "-chdir=terraform", "output"],
        ["aws", "ecr", "describe-images"],
        ["aws", "ecr", "describe-images"],
        ["aws", "ecr", "get-login-password"],
        ["docker", "buildx", "build"],
    ]
    assert result.stderr.index("+ docker") < result.stderr.index("no space left")
    assert f"{CPU_IMAGE} is not in the repository" in result.stderr
    assert "run this again: layers already uploaded are not sent again" in result.stderr
    assert not machine.pin.exists()
    assert machine.calls[-1] == f"docker logout {REGISTRY}"


def test_repository_and_tag_can_be_given_and_another_stacks_repository_is_not_pinned(machine):
    by_argument = machine.publishes("--repository", REPOSITORY, "try-1")
    assert f"Pushed {REPOSITORY}:try-1" in by_argument.stdout
    (machine.bin / "terraform").unlink()
    by_environment = machine.publishes(ECR_REPOSITORY_URL=REPOSITORY, IMAGE_TAG="try-2")
    assert f"Pushed {REPOSITORY}:try-2" in by_environment.stdout
    for result in (by_argument, by_environment):
        assert result.stdout.splitlines()[-1].strip() == (
            f"terraform apply -var image_tag={DIGEST} -var cpu_image_tag={CPU_DIGEST}"
        )
    assert not machine.pin.exists()


@pytest.mark.parametrize(("there", "built"), [(CPU_IMAGE, "--target gpu"), (IMAGE, "--target cpu")])
def test_what_an_earlier_try_pushed_stays(machine, there, built):
    """An older buildx tells no id, which stops nothing."""
    machine.have_pushed(there)
    machine.answer("docker buildx build", "exit 0")
    assert "Its image_digest in results" not in machine.publishes().stdout
    (build,) = machine.builds
    assert built in build
    assert machine.pin.read_text() == PIN


@pytest.mark.parametrize(
    ("status", "differ"),
    [("echo ' M a.py'; echo '?? b.py'", "2 files differ"), ("echo '?? b.py'", "1 file differs")],
)
def test_changes_that_are_not_committed_are_refused(machine, status, differ):
    machine.answer(f"git -C {machine.checkout} status", status)
    message = machine.refused()
    assert f"{differ} from the last commit" in message
    assert "run `job_container/publish.sh --allow-dirty` to try" in message
    assert f"Pushed {IMAGE}-dirty" in machine.publishes("--allow-dirty").stdout


def test_a_tag_that_exists_is_refused_with_its_digests(machine):
    machine.have_pushed(IMAGE, CPU_IMAGE)
    message = machine.refused()
    assert f"{IMAGE} exists already, as {DIGEST}, and for CPU targets as {CPU_DIGEST}" in message
    assert f'  image_tag     = "{DIGEST}"\n  cpu_image_tag = "{CPU_DIGEST}"\n' in message


@pytest.mark.parametrize("program", ["docker", "aws", "terraform", "git"])
def test_a_missing_program_is_named_in_one_line(machine, program):
    (machine.bin / program).unlink()
    (line,) = machine.refused().splitlines()
    assert f"{program} is needed but not on the PATH" in line


@pytest.mark.parametrize(
    ("command", "answer", "parts"),
    [
        ("git -C", "exit 128", ["is not a git checkout, so no commit identifies what"]),
        (
            "terraform",
            'echo "Output ecr_repository_url not found" >&2; exit 1',
            ["Output ecr_repository_url not found", "no repository yet", "`terraform apply`"],
        ),
        (
            "aws ecr describe-images",
            'echo "(RepositoryNotFoundException)" >&2; exit 254',
            ["batchmark-job in eu-west-1", "that it is applied", "(RepositoryNotFoundException)"],
        ),
        (
            "aws ecr describe-images",
            'echo "Unable to locate credentials" >&2; exit 253',
            ["check your credentials", "Unable to locate credentials"],
        ),
        ("aws ecr describe-images", "echo None; exit 0", ['ECR gives "None" as the digest of']),
    ],
)
def test_what_another_program_says_is_passed_on(machine, command, answer, parts):
    machine.answer(command, answer)
    message = machine.refused()
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("base", ["", "python:3.11-slim-bookworm", None])
def test_a_base_image_without_a_digest_is_refused(machine, base):
    bases = machine.checkout / "containers" / "base_images.env"
    bases.unlink()
    if base is not None:
        bases.write_text(f"PYTHON_IMAGE={base}\n")
    assert f'says PYTHON_IMAGE="{base or ""}"; it must name' in machine.refused()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--repository", "docker.io/library/job"), 'the repository is "docker.io/library/job"'),
        (("--repository",), "--repository needs a URL"),
        (("a tag",), 'the tag is "a tag"'),
        (("--push",), "unknown option --push"),
    ],
)
def test_bad_arguments_are_refused(machine, arguments, message):
    assert message in machine.refused(*arguments, code=2)


@pytest.mark.parametrize("command", ["aws ecr get-login-password", "docker login"])
def test_a_login_that_fails_ends_it(machine, command):
    machine.answer(command, "echo denied >&2; exit 1")
    result = machine.run()
    assert (result.returncode, result.stdout) == (1, "")
    assert f"logging in to {REGISTRY} failed; nothing was pushed" in result.stderr
    assert machine.builds == []
    assert machine.calls[-1] == f"docker logout {REGISTRY}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("docker version", "no Docker engine answers: start it"),
        ("docker buildx version", "this docker has no buildx plugin: install it first"),
    ],
)
@pytest.mark.parametrize("asked", [(), ("--check",)])
def test_without_an_engine_that_builds_nothing_is_asked(machine, command, told, asked):
    machine.answer(command, "exit 1")
    (line,) = machine.refused(*asked).splitlines()
    assert told in line
    assert [call for call in machine.calls if call.startswith(("aws", "terraform"))] == []


def test_a_check_asks_git_and_docker_alone(machine):
    result = machine.publishes("--check")
    assert result.stdout + result.stderr == ""
    asked = [call for call in machine.calls if not call.startswith("git ")]
    assert asked == ["docker version", "docker buildx version"]
    machine.answer(f"git -C {machine.checkout} status", "echo ' M a.py'")
    assert "1 file differs from the last commit" in machine.refused("--check")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("echo None", 'ECR gives "None" as the digest'),
        (f"echo '{NOT_FOUND}' >&2; exit 254", "was pushed, but ECR does not have it"),
    ],
)
def test_an_image_without_a_digest_is_not_called_published(machine, answer, message):
    machine.answer(
        "aws ecr describe-images",
        f"if grep -q 'buildx build' \"$CALLS\"; then {answer}; "
        f"else echo '{NOT_FOUND}' >&2; exit 254; fi; exit 0",
    )
    result = machine.run()
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr
    assert len(machine.builds) == 1
    assert not machine.pin.exists()


def test_its_help_is_its_own_heading(machine):
    shown = machine.publishes("--help").stdout
    assert shown.startswith("usage: job_container/publish.sh [--allow-dirty]")
    assert "set -" not in shown
