"""The job itself as pods of a cluster that stands in: they wait, share, meet and measure."""

from types import SimpleNamespace

import boto3
import pytest

from batchmark.orchestration.pods import cluster_api, pods_operator, pods_watch
from batchmark.orchestration.pods.pods_operator import PodsOperator
from batchmark.orchestration.xcom import PODS_XCOM
from batchmark.runs.pod_collecting import EndedPods, collect_pods
from batchmark_job.result.document import MeasurementStatus
from tests.builders.clusters import RUN_ID, applied, planned, published
from tests.builders.installations import configured
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.kubernetes_api.access import Access
from tests.stand_ins.kubernetes_api.api import serving
from tests.stand_ins.kubernetes_api.clients import CLUSTER, GROUPS, reaching
from tests.stand_ins.kubernetes_api.processes import Processes


def test_two_pods_of_one_gpu_wait_for_sharing_meet_and_measure(tmp_path, monkeypatch):
    config = configured()
    bucket = MemoryBucket(config.bucket, config.region)
    told = published(gpus=1, replicas_per_gpu=2, vcpus=4)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: bucket)
    monkeypatch.setattr(pods_operator, "load_cluster", lambda: told)
    monkeypatch.setattr(pods_operator, "load_config", lambda: config)
    for module in (cluster_api, pods_watch):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.2)
    job = planned(2, waiting=2, gpus=1, replicas_per_gpu=2, vcpus=4)[0]
    xcoms = {}
    ti = SimpleNamespace(try_number=1, xcom_push=lambda key, value: xcoms.update({key: value}))

    def put(key, text):
        bucket.objects[key] = text.encode()

    cluster = applied(Processes(tmp_path, put), gpus=1, replicas_per_gpu=2)
    with serving(cluster, Access(CLUSTER, GROUPS)) as url:
        monkeypatch.setattr(pods_operator, "kubeconfig", reaching(url, tmp_path / "kubeconfig"))
        operator = PodsOperator(
            task_id="run_pods",
            planned=job.model_dump(mode="json"),
            begins_exclusive=True,
            pending_seconds=1,
        )
        operator.execute({"run_id": RUN_ID, "ti": ti})
    assert cluster.containers.started == 2
    assert cluster.containers.processes == {}
    ended = EndedPods.model_validate(xcoms[PODS_XCOM])
    store = pods_operator.RunStore(bucket, config.bucket, RUN_ID)
    (collected,) = collect_pods(store, run_id=RUN_ID, planned=[job], ended=[ended]).jobs
    (row,) = collected.document.measurements
    # Other tests may load the machine so much that the row does not settle.
    assert row.status in {MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED}
    assert row.parameters["replicas"] == 2
    assert row.sharing.form == "pods"
    assert [replica.outcome.value for replica in row.sharing.replicas] == ["ran", "ran"]
    assert collected.document.actual_device.value == "cpu"
    log = bucket.objects[ended.log_key].decode()
    assert "cnn_training_step" in log


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
