"""Folders of instances, for processes."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from local_cloud.batch.jobs.container import merge
from local_cloud.batch.jobs.volumes import below
from local_cloud.batch.running.host_folders import HostFolders


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = HostFolders()
    yield made
    made.remove()
    assert list(tmp_path.iterdir()) == []


def launch(environment, *mounts, compute_environment="shared", node=None, file_system=None):
    properties = {
        "image": "image",
        "environment": [{"name": name, "value": value} for name, value in environment.items()],
        "volumes": [
            {"name": str(number), "host": {"sourcePath": source} if source else {}}
            for number, (source, _) in enumerate(mounts)
        ],
        "mountPoints": [
            {"sourceVolume": str(number), "containerPath": path}
            for number, (_, path) in enumerate(mounts)
        ],
    }
    attempt = SimpleNamespace(compute_environment=compute_environment)
    return SimpleNamespace(
        container=merge(properties, {}, {}),
        job=SimpleNamespace(
            attempts=[attempt], submission=SimpleNamespace(is_multi_node=node is not None)
        ),
        node=node,
        file_system=file_system,
    )


def test_jobs_of_one_instance_have_the_same_folder(folders):
    asked = {"BATCHMARK_SHARING_FOLDER": "/sharing"}, ("/sharing", "/sharing")
    first, second = (folders.in_variables(launch(*asked)) for _ in range(2))
    assert first == second
    Path(first["BATCHMARK_SHARING_FOLDER"], "barrier").write_text("1")
    other = folders.in_variables(launch(*asked, compute_environment="other"))
    assert list(Path(other["BATCHMARK_SHARING_FOLDER"]).iterdir()) == []


def test_variables_below_a_mount_point_follow_it_and_others_stay(folders):
    environment = {"A": "/in/deep/file", "B": "/inner", "C": "in", "D": "/", "E": "/in/"}
    environment["F"] = "/fresh"  # has no folder
    found = folders.in_variables(launch(environment, ("/data", "/in"), (None, "/fresh")))
    assert set(found) == {"A", "E"}
    assert found["A"] == f"{Path(found['E'])}/deep/file"
    assert Path(found["E"]).is_dir()


def test_two_mounts_of_one_folder_are_one_and_no_source_leaves_it(folders, tmp_path):
    mounts = ("/data/../data", "/a"), ("/data", "/b/"), ("/../../x", "/c")
    found = folders.in_variables(launch({"A": "/a", "B": "/b", "C": "/c"}, *mounts))
    assert found["A"] == found["B"]
    assert Path(found["C"]).resolve().is_relative_to(tmp_path)


def test_each_node_has_folders_of_its_own(folders):
    asked = {"A": "/scratch"}, ("/scratch", "/scratch")
    first, second = (folders.in_variables(launch(*asked, node=node))["A"] for node in range(2))
    assert first != second


@pytest.mark.parametrize("source", ["/fsx", "/fsx/", "//fsx/images/.."])
def test_a_hosts_file_system_is_the_same_for_all_nodes(folders, tmp_path, source):
    there = tmp_path / "file-system"
    there.mkdir()
    mounted = launch({"A": "/fsx/images"}, (source, "/fsx"), node=3, file_system=there)
    assert folders.in_variables(mounted) == {"A": str(there / "images")}
    below = launch({"A": "/data"}, ("/fsx/a/b", "/data"), file_system=there)
    assert folders.in_variables(below) == {"A": str(there / "a/b")}
    other = launch({"A": "/data"}, ("/fsxx", "/data"), file_system=there)
    assert not folders.in_variables(other)["A"].startswith(str(there))
    shutil.rmtree(there)  # what is left afterwards is the folders'


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/fsx", ""),
        ("/fsx/", ""),
        ("//fsx//a/b/", "a/b"),
        ("/fsx/a/../b", "b"),
        ("/fsx/..", None),
        ("/fsxx", None),
        ("/data/fsx", None),
    ],
)
def test_what_lies_below_a_folder(path, rest):
    assert below("/fsx", path) == rest
