"""Locks, images and the compose file name the same versions and the same base images."""

import re
import tomllib

import pytest
import yaml

from tests.paths import ROOT

AIRFLOW = "containers/Dockerfile"
JOB = "job_container/Dockerfile"
THUMBNAILS = "job_container/own_jobs/thumbnails"
DOCKERFILES = (AIRFLOW, JOB, f"{THUMBNAILS}/Dockerfile")
IMAGE_LOCKS = (
    "containers/requirements.txt",
    "job_container/requirements.txt",
    "job_container/requirements-gpu.txt",
    f"{THUMBNAILS}/requirements.txt",
    f"{THUMBNAILS}/requirements-gpu.txt",
)
LOCKS = (
    *("requirements.txt", "requirements-dev.txt"),
    *("requirements-checkov.txt", "requirements-otava.txt", "requirements-mwaa.txt"),
    *IMAGE_LOCKS,
    *("containers/requirements-build.txt", "job_container/requirements-build.txt"),
)
PINNED = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def read(path):
    return ROOT.joinpath(path).read_text()


def base_images():
    return dict(re.findall(r"^([A-Z_]+)=(\S+)$", read("containers/base_images.env"), re.MULTILINE))


def locked(path):
    """Package -> its version, without the mark of a build such as `+cpu`."""
    found = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;+]+)", read(path), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def wanted(path):
    """The packages of a list that is locked elsewhere."""
    return {
        re.match(r"[\w.-]+", line).group()
        for line in read(path).splitlines()
        if re.match(r"[\w]", line)
    }


def instructions(path, word):
    return re.findall(rf"^{word}\s+(.+)$", read(path), re.MULTILINE)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_dockerfiles_take_from_base_images_and_wheels_whose_hashes_are_known(dockerfile):
    text = read(dockerfile)
    assert not re.search(r"^#\s*syntax\s*=", text, re.MULTILINE), "a frontend from a registry"
    defaults = dict(
        word.split("=", 1) for word in instructions(dockerfile, "ARG") if "_IMAGE=" in word
    )
    assert defaults == {name: base_images()[name] for name in defaults}

    stages = set()
    for line in instructions(dockerfile, "FROM"):
        image, *rest = line.split()
        argument = re.fullmatch(r"\$\{(\w+)\}", image)
        known = argument.group(1) in defaults if argument else image in stages | {"scratch"}
        assert known, f"{dockerfile}: FROM {image} is neither pinned nor a stage above it"
        stages.update(rest[1:2])
    # COPY --from an image would be a base image that nothing pins.
    sources = re.findall(r"(?:--from=|,from=)([\w./:@${}-]+)", text)
    assert [source for source in sources if source not in stages] == []

    commands = re.sub(r"\\\n\s*", "", text).replace("&&", "\n").splitlines()
    installs = [line for line in commands if re.search(r"^(?!#).*\bpip\b.* install ", line)]
    assert installs
    for line in installs:
        assert re.search(r"--only-binary[ =]:all:", line), line
        # Of torch's CPU build PyPI has no file to take a hash from.
        assert "--require-hashes" in line or '"$torch' in line, line


def test_base_images_are_pinned_and_services_of_the_compose_file_run_one_or_an_image_of_ours():
    found = base_images()
    assert {"PYTHON_IMAGE", "POSTGRES_IMAGE"} <= set(found)
    assert [image for image in found.values() if not PINNED.fullmatch(image)] == []
    text = read("docker-compose.yaml")
    repeated = dict(re.findall(r"\$\{([A-Z]+_IMAGE):-([^}]+@sha256:[0-9a-f]+)\}", text))
    assert repeated["POSTGRES_IMAGE"] == found["POSTGRES_IMAGE"]
    assert repeated == {name: found[name] for name in repeated}
    for name, service in yaml.safe_load(text)["services"].items():
        image = re.sub(r"\$\{\w+:-(.*)\}$", r"\1", service["image"])
        assert PINNED.fullmatch(image) or image.startswith("batchmark-airflow:"), (name, image)


def test_images_and_wheels_have_the_projects_version_and_what_wheels_need_is_locked():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    plugins, job = (
        tomllib.loads(read(f"{folder}/pyproject.toml"))["project"]
        for folder in ("plugins", "job_container")
    )
    named = re.findall(r"\$\{BATCHMARK_VERSION:-([^}]+)\}", read("docker-compose.yaml"))
    assert {plugins["version"], job["version"], *named} == {project["version"]}
    assert named
    assert plugins["dependencies"][0] == f"batchmark-job=={project['version']}"
    assert {*job["dependencies"]} <= wanted("job_container/requirements.in")
    assert {*plugins["dependencies"][1:]} <= locked("requirements.txt").keys()


@pytest.mark.parametrize("lock", LOCKS)
def test_each_package_has_the_hashes_of_its_files(lock):
    lines = [line for line in read(lock).splitlines() if line and not line.lstrip().startswith("#")]
    starts = [index for index, line in enumerate(lines) if not line.startswith(" ")]
    assert starts
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        assert re.match(r"[\w.-]+==\S+", lines[start])
        assert lines[start + 1 : end], f"{lock}: {lines[start]} has no hash"
        for line in lines[start + 1 : end]:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)


@pytest.mark.parametrize("lock", IMAGE_LOCKS)
def test_an_image_installs_what_the_tests_run_with(lock):
    tested = locked("requirements-dev.txt") | locked("requirements.txt")
    installed = locked(lock)

    assert installed
    differing = {
        name: (versions, tested[name])
        for name, versions in installed.items()
        if name in tested and not versions <= tested[name]
    }
    assert differing == {}, f"{lock} and requirements.txt: `make lock` brings them together"


def test_an_images_list_is_in_its_lock_and_in_the_root_one():
    for folder in ("containers", "job_container"):
        packages = wanted(f"{folder}/requirements.in")
        assert packages
        installed = set(locked(f"{folder}/requirements.txt"))
        assert packages - installed <= {"torch"}, f"{folder}'s lock is older: `make lock`"
        assert packages - set(locked("requirements.txt")) == set()
    heavy = {"torch", "triton", "opencv-python-headless", "pytest"}
    ours = set(locked("containers/requirements.txt"))
    assert ours <= set(locked("requirements.txt")) - heavy, "Airflow's image has no heavy ones"


def test_the_images_python_is_the_one_that_everything_is_locked_for():
    tag = re.search(r"python:(\d+\.\d+)", base_images()["PYTHON_IMAGE"]).group(1)
    project = tomllib.loads(read("pyproject.toml"))

    assert f"--python-version {tag} " in read("Makefile")
    assert project["tool"]["mypy"]["python_version"] == tag
    assert project["project"]["requires-python"].startswith(f">={tag}")
    postgres = re.search(r"postgres:(\d+)", base_images()["POSTGRES_IMAGE"]).group(1)
    assert f"postgresql-{postgres}" in read("tests/containers/stand_ins.py")


def test_the_gpu_lock_is_the_cpu_lock_and_cuda_with_the_torch_of_both():
    cpu, gpu = (locked(f"job_container/requirements{kind}.txt") for kind in ("", "-gpu"))
    assert cpu.items() <= gpu.items()
    added = gpu.keys() - cpu.keys()
    assert {"torch", "triton", "nvidia-cublas"} <= added
    assert all(name.startswith(("nvidia-", "cuda-", "triton", "torch")) for name in added), added
    assert locked("job_container/requirements.in")["torch"] == gpu["torch"]
    assert {"cyclonedx-bom", "uv"} <= locked("job_container/requirements-build.txt").keys()


@pytest.mark.parametrize(
    "source",
    sorted({word for line in instructions(JOB, "COPY(?! --from)") for word in line.split()[:-1]}),
)
def test_what_is_copied_reaches_the_build(source):
    name = source.rstrip("/")
    assert (ROOT / "job_container" / name).exists()
    assert f"!{name}" in read("job_container/.dockerignore").splitlines()
