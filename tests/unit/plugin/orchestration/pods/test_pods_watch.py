"""What a watch makes of answers that come late, or not at all."""

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from batchmark.orchestration.pods.pods_watch import UNREADABLE_SECONDS, PodsWatch
from tests.builders.clusters import SINCE, pod, published, unschedulable, waiting_container

SHORT = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def pod_in(phase, name):
    """A phase, or "Starting": it has its node, which loads the image."""
    if phase == "Pending":
        return unschedulable(name, SHORT)
    if phase == "Starting":
        return waiting_container(name, reason="ContainerCreating")
    return pod(name, phase, node="n")


class Api:
    """Answers each poll, a second apart, with the next phases; an error is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.cluster = published()
        self.now = 0

    def clock(self):
        return self.now

    def sleep(self, _):
        self.now += 1

    def job(self, name):
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.phases = answer
        done = {"conditions": [{"type": "Complete", "status": "True"}]} if "done" in answer else {}
        return {
            "metadata": {"name": name, "creationTimestamp": SINCE},
            "spec": {"completions": 2},
            "status": done,
        }

    def pods(self, _):
        found = ("Succeeded", "Succeeded") if "done" in self.phases else self.phases
        return [pod_in(phase, f"p-{number}") for number, phase in enumerate(found)]

    def nodes(self):
        return []

    def events(self, _):
        return []


def watch(api, share=None):
    limits = {"pending_seconds": 3, "starting_seconds": 9}
    return PodsWatch(api, "job", **limits, share=share).run()


WAITING = ("Running", "Pending")


@pytest.mark.parametrize(
    "answers",
    [
        [*[WAITING] * 6, ("Running", "Running")],
        [*[("Starting", "Pending")] * 6, *[("Starting", "Starting")] * 3],  # loading their image
    ],
)
def test_gpus_are_shared_while_a_pod_waits_and_those_that_have_one_may_take_their_time(answers):
    shared = []
    api = Api(*answers, ("done",))
    assert watch(api, lambda: shared.append(api.now)) is None
    assert shared == [3]


def test_a_pod_that_waits_is_told_and_nothing_shared_while_no_pod_has_a_gpu():
    shared = []
    failure = watch(Api(WAITING), lambda: shared.append(1))
    assert shared == [1]
    assert failure.startswith("Kubernetes job job was stopped. 1 of 2 pods can't start.")
    shared = []
    assert "can't start" in watch(Api(("Pending", "Pending")), lambda: shared.append(1))
    assert shared == []


@pytest.mark.parametrize("error", [ProtocolError("gone"), ApiException(status=503)])
def test_a_cluster_that_does_not_answer_is_asked_again_for_a_while(error):
    assert watch(Api(("Running", "Running"), error, error, ("done",))) is None
    api = Api(("Running", "Running"), error)
    with pytest.raises(type(error)):
        watch(api)
    assert api.now > UNREADABLE_SECONDS


def test_a_job_that_is_gone_or_never_ends_is_told():
    api = Api(("Running", "Running"), ApiException(status=404))
    assert watch(api) == "Kubernetes job job was deleted while it was running"
    late = watch(Api(("Running", "Running")))
    assert late == "Kubernetes job job did not finish within its timeout"
