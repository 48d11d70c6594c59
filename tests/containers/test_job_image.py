"""The slim job image, built from the unchanged Dockerfile: what it does and what it lacks."""

import io
import json
import re
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import PurePosixPath

import pytest

from batchmark_job.result.document import parse_document
from tests.containers import image_layers
from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS, wait_for

USER = 10001
LARGEST_BYTES = 1_400_000_000

# As Terraform's job definition starts it, and with less: Batch can't drop capabilities.
HARDENED = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,size=512m"},
    "network_mode": "none",
    "mem_limit": "3g",
}
# torch, NumPy, SciPy and OpenCV are its rivals.
SMALL = "--workload gaussian_blur --axis size=64"
SHORT = "--samples 10 --max-seconds 0.2 --no-ceilings"
COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "tcc", "as", "ld", "make", "rustc", "go")
INSTALLERS = ("pip", "pip3", "uv", "wheel", "easy_install", "conda", "npm")


@pytest.fixture
def run(engine, job_image):
    """Run a command in a hardened container to its end: exit code, standard output and error."""

    def run(*command, **settings):
        with started(engine, job_image, *command, **settings) as container:
            code = int(container.wait(timeout=PATIENCE_SECONDS)["StatusCode"])
            streams = ((True, False), (False, True))
            out, err = (container.logs(stdout=o, stderr=e).decode() for o, e in streams)
            return code, out, err

    return run


@contextmanager
def started(engine, image, *command, **settings):
    container = engine.containers.run(image, list(command), detach=True, **(HARDENED | settings))
    try:
        yield container
    finally:
        container.remove(force=True, v=True)


@pytest.fixture(scope="module")
def configuration(engine, job_image):
    return engine.images.get(job_image).attrs


def test_it_measures_on_a_read_only_root_without_any_capability(run):
    job = f"python -m batchmark_job run {SMALL} --device cpu {SHORT} --output /tmp/result.json"
    code, out, err = run("sh", "-c", f"{job} >&2 && cat /tmp/result.json")
    assert code == 0, err
    document = parse_document(out)
    assert document.status == "complete"
    (row,) = document.measurements
    assert row.status.value in {"measured", "unsettled"}
    assert not [trial for trial in row.trials if trial.outcome in {"wrong", "failed"}]
    assert document.environment.torch_version.endswith("+cpu")
    assert document.environment.gpu_count == 0


def test_it_runs_as_its_own_user_and_can_write_nowhere_else(run, configuration):
    assert configuration["Config"]["User"] == f"{USER}:{USER}"
    script = (
        "id -u; id -g; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; "
        "for place in / /app /opt/venv /etc /root /home /var/tmp; do "
        'touch "$place/new" 2>/dev/null && echo "wrote $place"; done; true'
    )
    assert run("sh", "-c", script)[1].split() == [
        str(USER),
        str(USER),
        "CapEff:",
        "0" * 16,
        "NoNewPrivs:",
        "1",
    ]
    # Nor where the root is writable: its files are root's.
    script = (
        "for place in /app /opt/venv /etc /usr/bin; do test -w $place && echo $place; done; true"
    )
    assert run("sh", "-c", script, read_only=False)[1] == ""


def test_without_a_command_it_shows_what_it_can_measure_and_for_cuda_that_it_is_the_wrong_image(
    run,
):
    code, out, _ = run()
    assert code == 0
    assert "suite smoke:" in out
    assert "workload softmax:" in out, "own workloads are in the image"
    code, _, err = run(
        *("python", "-m", "batchmark_job", "run", "--workload", "matmul", "--axis", "size=64"),
        *("--device", "cuda", "--output", "/tmp/result.json"),
    )
    assert code == 3
    (line,) = err.splitlines()
    assert "is built without CUDA; run the gpu variant of the job image" in line


def test_no_compiler_no_installer(run):
    names = " ".join((*COMPILERS, *INSTALLERS))
    script = f"for name in {names}; do command -v $name; done; true"
    assert run("sh", "-c", script)[1] == ""
    modules = "import importlib.util as u; print([n for n in N if u.find_spec(n)])"
    for python in ("/opt/venv/bin/python", "$(readlink -f /opt/venv/bin/python)"):
        listed = f'{python} -c \'N = ("pip", "setuptools", "wheel", "ensurepip"); {modules}\''
        assert run("sh", "-c", listed)[1] == "[]\n", python


def test_no_program_runs_with_more_rights_than_its_caller(run):
    script = "find / -xdev -type f -perm /6000; find / -xdev -type f -perm -o=w; true"
    root = {"user": "0", "cap_drop": [], "read_only": False}
    assert run("sh", "-c", script, **root)[1] == ""
    marked = "touch /usr/bin/x && chmod u+s /usr/bin/x && "
    assert run("sh", "-c", marked + script, **root)[1] == "/usr/bin/x\n"


def test_tini_is_process_1_and_passes_sigterm_on(engine, job_image, run, configuration):
    endless = "--workload matmul --axis size=256 --samples 10000 --max-seconds 600 --precision 0"
    command = f"python -m batchmark_job run {endless} --no-ceilings --output /tmp/result.json"
    with started(engine, job_image, *command.split()) as container:
        wait_for_log(container, "batchmark-job: suite custom, 1 row")
        first = container.exec_run(["cat", "/proc/1/comm"]).output.decode()
        container.kill("SIGTERM")
        code = container.wait(timeout=PATIENCE_SECONDS)["StatusCode"]
        log = container.logs().decode()
    assert first == "tini\n"
    assert code == 143, log
    assert "batchmark-job: SIGTERM: writing the" in log
    assert log.splitlines()[-1] == "batchmark-job: wrote /tmp/result.json"
    # Batch's initProcessEnabled puts Docker's own before it, below which it says nothing.
    entrypoint = " ".join(configuration["Config"]["Entrypoint"])
    ended = run("sh", "-c", f"{entrypoint} sh -c 'echo ran; exit 7'")
    assert ended == (7, "ran\n", "")


def wait_for_log(container, text):
    def told():
        log = container.logs().decode()
        container.reload()
        assert text in log or container.status == "running", log
        return text in log

    wait_for(told, f"{text!r} in the log")


def test_labels_say_what_it_is_and_its_size_is_watched(configuration):
    labels = configuration["Config"]["Labels"]
    of = {name.removeprefix("org.opencontainers.image."): labels[name] for name in labels}
    assert of["title"] == "batchmark-job-cpu"
    assert of["description"]
    for name in ("version", "revision", "created", "base.name", "base.digest"):
        assert of[name], name
    assert of["batchmark.sbom"] == "/app/sbom.cdx.json"
    size = configuration["Size"]
    assert size < LARGEST_BYTES, f"{size / 1e9:.2f} GB: what has grown?"


def locked():
    """The versions of the lock and of torch, less setuptools, which the image does without."""
    folder = ROOT / "job_container"
    pins = (folder / "requirements.in").read_text() + (folder / "requirements.txt").read_text()
    versions = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", pins, re.MULTILINE))
    del versions["setuptools"]
    return versions


def test_its_list_of_packages_agrees_with_the_lock(run, configuration):
    """It was held against CycloneDX's schema when it was written, or the build had failed."""
    _, out, _ = run("cat", configuration["Config"]["Labels"]["batchmark.sbom"])
    bill = json.loads(out)
    assert bill["bomFormat"] == "CycloneDX"
    versions = {component["name"]: component["version"] for component in bill["components"]}
    listed = {
        re.sub(r"[-_.]+", "-", name).lower(): version.removesuffix("+cpu")
        for name, version in versions.items()
    }
    assert listed == locked()
    assert versions["torch"] == f"{locked()['torch']}+cpu"
    assert all(component["purl"].startswith("pkg:pypi/") for component in bill["components"])
    script = "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))"
    installed = run("/opt/venv/bin/python", "-c", script)[1]
    assert installed == f"{sorted(versions)}\n"
    # Scanners can read Debian's packages; tini came after the base image.
    _, out, _ = run("cat", "/var/lib/dpkg/status")
    assert {"Package: tini", "Package: libc6"} <= set(out.splitlines())


def test_no_secret_in_any_layer_or_setting(engine, job_image, configuration):
    for setting in configuration["Config"]["Env"]:
        assert not image_layers.SECRET_VARIABLES.search(setting.partition("=")[0]), setting
    settings = [json.dumps(configuration), json.dumps(engine.images.get(job_image).history())]
    for text in settings:
        assert image_layers.secret_in(PurePosixPath("settings"), text.encode()) is None
    seen, found, left_over = set(), [], []
    with subprocess.Popen(["docker", "save", job_image], stdout=subprocess.PIPE) as saving:
        for path, content in image_layers.files(saving.stdout):
            seen.add(str(path))
            if secret := image_layers.secret_in(path, content):
                found.append(secret)
            if any(path.is_relative_to(folder) for folder in image_layers.LEFTOVERS):
                left_over.append(str(path))
    assert saving.returncode == 0
    assert {"app/batchmark_job/job.py", "app/sbom.cdx.json"} <= seen, "all layers were read"
    assert found == []
    assert left_over == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("root/.aws/credentials", b""),
        ("app/.git/config", b""),
        ("app/terraform.tfstate", b""),
        ("app/settings.py", b"KEY = 'AKIA" + b"Q" * 16 + b"'"),
        ("app/key", b"-----BEGIN PRIVATE KEY-----\n" + b"MIIE" * 8 + b"\n"),
        ("etc/apt/sources.list", b"deb https://me:hunter2@packages.example.org/debian"),
        ("app/notes", b"https://a:password@b.org, and then https://me:hunter2@b.org"),
        ("app/x", b'aws_secret_access_key = "' + b"a1B/" * 10 + b'"'),
    ],
)
def test_a_planted_secret_is_found(path, content):
    layer = tar({path: content, "app/harmless.py": b"print('AKIAIOSFODNN7EXAMPLE')"})
    archive = io.BytesIO(tar({"layer.tar": layer, "manifest.json": b"[]"}))
    found = [
        secret for file in image_layers.files(archive) if (secret := image_layers.secret_in(*file))
    ]
    assert len(found) == 1
    assert found[0].startswith(path)


def tar(members):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()
