"""Jobs whose pods share GPUs: planned, limited, and written as Kubernetes takes them."""

import json

import kubernetes_validate
import pytest

from batchmark.core.clusters.cluster import parse_cluster
from batchmark.core.errors import ConfigError, PlanError
from batchmark.core.prices import load_prices
from batchmark.runs.budget import worst_case
from batchmark.runs.plans.pod_plan import job_manifest
from batchmark_job import command_line
from tests.builders.clusters import IMAGE, RUN_ID, planned, published
from tests.builders.installations import configured
from tests.builders.leaks import NOW
from tests.stand_ins.kubernetes_api.validation import VERSION


def manifest(job, **changes):
    return job_manifest(published(**changes), RUN_ID, job, name="sharing-1")


def test_the_job_without_sharing_is_first_and_both_tries_of_each_cost_the_node():
    jobs = planned(20, 10)
    assert [job.name for job in jobs] == ["sharing-of-5-1", "sharing-of-20-1", "sharing-of-10-1"]
    assert jobs[0].target == "g4dn.12xlarge-eks"
    assert jobs[0].result_prefix == "s3://results/raw/run/g4dn.12xlarge-eks/sharing/of-5/1/"
    assert [job.sharing.replicas for job in planned(20, waiting=0)] == [(20,)]
    assert [job.sharing.replicas for job in planned(5, 40, waiting=5)] == [(5,), (40,)]
    worst = worst_case(configured(), planned(20), load_prices(), NOW)
    assert {one.target for one in worst.targets} == {"g4dn.12xlarge-eks"}
    # Two jobs, two tries each: half an hour to measure, and 27 minutes around it.
    assert sum(one.seconds for one in worst.targets) == 2 * 2 * (1800 + 1200 + 300 + 120)
    price = load_prices().on_demand["g4dn.12xlarge"]
    assert worst.usd == pytest.approx(price * 4 * 3420 / 3600, abs=0.02)


@pytest.mark.parametrize(
    ("replicas", "waiting", "changes", "problem"),
    [
        ((41,), 5, {}, "41 pods need one share each, but 4 GPU(s) with 10 shares each offer 40"),
        ((20,), 50, {}, "50 pods need one share each"),
        ((20,), 5, {"vcpus": 16}, "20 pods need a vCPU each, but g4dn.12xlarge has only 14"),
        ((20,), 5, {"name": "lab"}, "belongs to installation 'lab', but this Airflow belongs to"),
    ],
)
def test_what_could_never_run_is_refused(replicas, waiting, changes, problem):
    with pytest.raises(PlanError) as error:
        planned(*replicas, waiting=waiting, **changes)
    assert problem in str(error.value)


def test_pods_are_valid_for_the_pinned_version_and_ask_for_no_more_than_their_part_of_the_node():
    assert [published().pods_at_once(shared=shared) for shared in (False, True)] == [4, 40]
    for job in planned(1, 20, 40):
        kubernetes_validate.validate(manifest(job), VERSION, strict=True)
        (pods,) = job.sharing.replicas
        (container,) = manifest(job)["spec"]["template"]["spec"]["containers"]
        requests, limits = (container["resources"][kind] for kind in ("requests", "limits"))
        assert requests["nvidia.com/gpu"] == limits["nvidia.com/gpu"] == "1"
        assert pods * int(requests["cpu"].removesuffix("m")) <= 46_000
        assert pods * int(requests["memory"].removesuffix("Mi")) <= 196608 * 7 / 8


def test_each_pod_is_a_replica_of_the_same_container():
    job = planned(20)[1]
    spec = manifest(job)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 20, 20)
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    command = container["command"]
    assert command[:6] == ["python", "-m", "batchmark_job", "run", "--suite", "sharing"]
    options = dict(zip(command[4::2], command[5::2], strict=True))
    told = {"--form": "pods", "--replicas": "20", "--modes": "time_slicing", "--threads": "2"}
    assert options.items() >= (told | {"--output": job.result_prefix}).items()
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables["BATCHMARK_SHARING_FOLDER"] == "/sharing"
    assert variables["AWS_BATCH_JOB_ID"] == "sharing-1"
    # No rights on the node but to the folder.
    assert pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    folders = [one["hostPath"]["path"] for one in pod["volumes"] if "hostPath" in one]
    assert folders == ["/var/lib/batchmark/sharing"]


def test_the_job_understands_the_command(monkeypatch, tmp_path):
    (container,) = manifest(planned(20)[1])["spec"]["template"]["spec"]["containers"]
    for one in container["env"]:
        monkeypatch.setenv(one["name"], one["value"])
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
    ran = []
    monkeypatch.setattr("batchmark_job.job.run_job", lambda settings, _: ran.append(settings) or 0)
    assert command_line.main([*container["command"][3:], "--output", f"{tmp_path}/"]) == 0
    (settings,) = ran
    (point,) = settings.points
    assert (point.sharing.form, point.named_parameters["replicas"]) == ("pods", 20)
    assert settings.place.number == 3
    assert str(settings.place.folder).startswith("/sharing/")


def test_what_is_published_is_read_strictly():
    text = published().model_dump_json()
    assert parse_cluster(text) == published()
    with pytest.raises(ConfigError, match="apply terraform/stacks/eks_gpu_sharing, and"):
        parse_cluster(None)
    older = json.dumps(json.loads(text) | {"schema_version": 2})
    with pytest.raises(ConfigError, match="from this release"):
        parse_cluster(older)
