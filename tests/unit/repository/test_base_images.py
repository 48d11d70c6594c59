"""`make base-images`; a script on the PATH answers as Docker's buildx would."""

import os
import sys

import pytest

from containers import renew_base_images
from containers.renew_base_images import PINS, REPEATED_IN, main
from tests.builders.files import program

OLD, NEW = (f"sha256:{digit * 64}" for digit in "01")
INSPECT = "buildx imagetools inspect --format {{json .Manifest.Digest}}"
PYTHON, POSTGRES = "ours.example:5000/python:3.11", "postgres:17"
PINNED = f"PYTHON_IMAGE={PYTHON}@{OLD}\nPOSTGRES_IMAGE={POSTGRES}@{OLD}\n"


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Puts a Docker on the PATH that runs a line of shell for each image; others are unknown."""

    def answers(images, version="echo v0.19"):
        folder = tmp_path / "bin"
        folder.mkdir()
        known = "\n".join(f'  "{INSPECT} {image}") {line} ;;' for image, line in images.items())
        program(
            folder / "docker",
            f'case "$*" in\n  "buildx version") {version} ;;\n{known}\n'
            '  *) echo "docker $*: unexpected" >&2; exit 64 ;;\nesac',
        )
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return answers


def digest(found):
    return f"echo '\"{found}\"'"


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    write(made, PINNED)
    return made


def write(root, text):
    for file in (PINS, *REPEATED_IN):
        root.joinpath(file).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(file).write_text(text)


def texts(root):
    return {root.joinpath(file).read_text() for file in (PINS, *REPEATED_IN)}


def test_every_mention_of_an_image_gets_the_registrys_digest(docker, root, capsys):
    docker({PYTHON: digest(NEW), POSTGRES: digest(OLD)})
    other = f"# x{PYTHON}@{OLD}\n"
    write(root, PINNED + other)

    assert main(root) == 0

    assert texts(root) == {f"PYTHON_IMAGE={PYTHON}@{NEW}\nPOSTGRES_IMAGE={POSTGRES}@{OLD}\n{other}"}
    assert capsys.readouterr().out.splitlines() == [
        f"{PYTHON}@{NEW}: renewed in {', '.join(map(str, (PINS, *REPEATED_IN)))}",
        f"{POSTGRES}@{OLD}: unchanged",
    ]


def test_only_what_repeats_an_image_is_named(docker, root, capsys):
    docker({PYTHON: digest(NEW), POSTGRES: digest(NEW)})
    root.joinpath(REPEATED_IN[0]).write_text(f"FROM {PYTHON}@{OLD}\n")
    for file in REPEATED_IN[1:]:
        root.joinpath(file).write_text("no image\n")

    assert main(root) == 0

    python, postgres = capsys.readouterr().out.splitlines()
    assert python.endswith(f": renewed in {PINS}, {REPEATED_IN[0]}")
    assert postgres.endswith(f": renewed in {PINS}")

    write(root, PINNED)
    root.joinpath(REPEATED_IN[-1]).unlink()
    with pytest.raises(FileNotFoundError):
        main(root)
    assert root.joinpath(PINS).read_text() == PINNED, "a missing file leaves the others alone"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo 'try again' >&2; echo 'ERROR: not found' >&2; exit 1", "ERROR: not found"),
        ("exit 3", "buildx ended with code 3"),
        ("echo Name: postgres", "buildx returned 'Name: postgres\\n' instead of a digest"),
        ("echo null", "buildx returned 'None' instead of a digest"),
    ],
)
def test_an_image_without_a_digest_changes_nothing(docker, root, capsys, answer, said):
    docker({PYTHON: digest(NEW), POSTGRES: answer})
    assert main(root) == 1
    assert texts(root) == {PINNED}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"base-images: nothing was changed: {POSTGRES}: {said}\n"


def test_a_registry_that_never_answers_is_reported(docker, root, capsys, monkeypatch):
    docker({PYTHON: f"exec {sys.executable} -c 'import signal; signal.pause()'"})
    monkeypatch.setattr(renew_base_images, "ANSWER_SECONDS", 0.1)
    assert main(root) == 1
    assert texts(root) == {PINNED}
    assert capsys.readouterr().err.endswith(f"{PYTHON}: no response within 0.1 s\n")


@pytest.mark.parametrize("image", ["python", "127.0.0.1:5000/python"])
def test_a_name_without_a_tag_is_refused(docker, root, capsys, image):
    docker({image: digest(NEW)})
    text = f"PYTHON_IMAGE={image}@{OLD}\n"
    write(root, text)
    assert main(root) == 1
    assert texts(root) == {text}
    assert f"nothing was changed: '{image}' has no tag" in capsys.readouterr().err


def test_a_missing_docker_or_plugin_is_reported(docker, root, capsys, monkeypatch, tmp_path):
    with monkeypatch.context() as nowhere:
        nowhere.setenv("PATH", str(tmp_path))
        assert main(root) == 1
    refused = "base-images: nothing was changed: "
    assert capsys.readouterr().err == f"{refused}docker is not on the PATH\n"
    docker({}, version="echo 'docker: unknown command: docker buildx' >&2; exit 1")
    assert main(root) == 1
    assert capsys.readouterr().err == (
        f"{refused}Docker's buildx plugin is not installed: install it first\n"
    )
