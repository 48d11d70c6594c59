"""Which file systems the guard considers leaked, and the parameter that names one to nodes."""

import pytest

from tests.builders.leaks import NOW, REGION, end_by_default, file_system, job, seen
from tests.builders.scaling import stack

GONE = "This Airflow has no run r: the run was deleted or belongs to another Airflow."
STUCK = "Its run r has been live for over 72 hours: cancel it if it is stuck."


@pytest.mark.parametrize(
    ("jobs", "there", "state", "verdict", "reason"),
    [
        ([], file_system(), "over", "leaked", "None of the installation's jobs is live."),
        ([], file_system(23), "over", "new", "It is younger than 24 hours."),
        ([job()], file_system(), "live", "in use", "1 job(s) of the installation are live."),
        ([job()], file_system(0.3, run_id="r"), "over", "leaked", "Its run r is over."),
        ([], file_system(0.2, run_id="r"), "over", "new", "It is younger than 15 minutes."),
        ([], file_system(23, run_id="r"), "unknown", "new", "It is younger than 24 hours."),
        ([], file_system(run_id="r"), "unknown", "leaked", GONE),
        ([], file_system(73, run_id="r"), "live", "leaked", STUCK),
        ([], file_system(run_id="r", dag="d"), "live", "in use", "Its run is live."),
        ([], file_system(lifecycle="DELETING"), "over", "ending", "It is being deleted."),
    ],
)
def test_a_file_system_leaks_if_it_is_old_and_unused(clients, jobs, there, state, verdict, reason):
    report, _ = seen(clients, state, jobs, file_systems=[there])
    (found,) = [each for each in report.resources if each.kind == "file system"]
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.what.startswith("LUSTRE, 1200 GiB, ")


NODES = stack(name="lab", region=REGION)
PARAMETER = NODES.file_system.id_parameter


def name_file_system(clients, value):
    found = {"Name": PARAMETER, "Value": value, "LastModifiedDate": NOW}
    clients.answer("ssm", "get_parameter", {"Parameter": found}, {"Name": PARAMETER})


def set_to_none(clients):
    asked = {"Name": PARAMETER, "Value": "none", "Overwrite": True}
    clients.answer("ssm", "put_parameter", {}, asked)


def answer_deletion(clients, there):
    clients.answer("fsx", "delete_file_system", {}, {"FileSystemId": there["FileSystemId"]})


def look_with_nodes(clients, *file_systems):
    return seen(clients, file_systems=file_systems, nodes=NODES)[0]


def test_a_file_system_that_nodes_would_mount_is_named_no_more_before_it_is_deleted(clients):
    there = file_system(run_id="r", dag="d")
    name_file_system(clients, there["FileSystemId"])
    found = look_with_nodes(clients, there)
    name_file_system(clients, there["FileSystemId"])
    set_to_none(clients)
    answer_deletion(clients, there)
    assert end_by_default(found, clients, nodes=NODES) == {"file system": "Deleted."}


def test_a_file_system_is_deleted_although_the_parameter_can_not_be_read(clients):
    there = file_system(run_id="r", dag="d")
    clients.refuse("ssm", "get_parameter", "ParameterNotFound", "")
    found = look_with_nodes(clients, there)
    assert [one.id for one in found.of("leaked")] == [there["FileSystemId"]]
    assert found.unread == ("file systems: ParameterNotFound",)
    clients.refuse("ssm", "get_parameter", "AccessDeniedException", "")
    answer_deletion(clients, there)
    done = end_by_default(found, clients, nodes=NODES)["file system"]
    assert done.startswith(
        "Deleted. Nodes may still try to mount it, because the SSM parameter could not be reset: "
        "AccessDeniedException"
    )


@pytest.mark.parametrize(
    ("tags", "done"),
    [
        ({"run_id": "r", "dag": "d"}, "Deleted."),
        ({"target": "by-hand"}, "Left alone: end_leaks does not include file_systems."),
    ],
)
def test_by_default_a_deleted_runs_file_system_is_deleted_too(clients, tags, done):
    there = file_system(25, **tags)
    found, _ = seen(clients, "unknown", file_systems=[there])
    if done == "Deleted.":
        answer_deletion(clients, there)
    assert end_by_default(found, clients, "unknown") == {"file system": done}


def test_a_parameter_that_names_a_file_system_which_is_gone_is_set_to_none(clients):
    for value in ("none", "fs-0123456789abcdef0"):  # which is there
        name_file_system(clients, value)
        report = look_with_nodes(clients, file_system(0.1, run_id="r"))
        assert [one.kind for one in report.resources] == ["file system"]
    name_file_system(clients, "fs-gone")
    found = look_with_nodes(clients)
    (seen_,) = found.of("leaked")
    assert (seen_.kind, seen_.id, seen_.what) == ("parameter", PARAMETER, "names fs-gone")
    set_to_none(clients)
    assert end_by_default(found, clients, nodes=NODES) == {"parameter": "Set to 'none'."}
