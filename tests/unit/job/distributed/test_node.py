"""Which node of a job this is, by Batch's variables."""

import pytest

from batchmark_job.distributed import node as module
from batchmark_job.distributed.node import EVERY_ADDRESS, Node, interface_of, own_address
from batchmark_job.errors import InputError
from tests.stand_ins.nodes import node_environment

CHILD, MAIN = node_environment(3, 20), node_environment(0, 20)
TOKEN = CHILD["BATCHMARK_NODES_TOKEN"]
ADDRESS = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"


def test_batch_says_which_node_it_is():
    proof = Node.of(MAIN).proof
    assert Node.of(CHILD) == Node(3, 20, "10.0.0.7", proof=proof)
    assert Node.of(MAIN) == Node(0, 20, None, proof=proof)
    assert Node.of({}) == Node(0, 1), "outside a multi-node job it is the only one"
    assert [Node.of(given).is_main for given in (CHILD, MAIN, {})] == [False, True, True]
    assert Node.of(MAIN).joining_seconds == 1200
    assert Node.of(CHILD | {"BATCHMARK_JOINING_SECONDS": "90"}).joining_seconds == 90


def test_its_proof_is_of_its_job_and_token_and_shown_to_nobody():
    proof = Node.of(CHILD).proof
    for changed in ({"AWS_BATCH_JOB_ID": "job-2#3"}, {"BATCHMARK_NODES_TOKEN": f"{TOKEN}!"}):
        assert Node.of(CHILD | changed).proof != proof
    assert len(proof) == 32
    assert len(Node.of(CHILD | {"BATCHMARK_NODES_TOKEN": 32 * "\udcff"}).proof) == 32, "any bytes"
    assert repr(proof) not in repr(Node.of(CHILD))
    alone = MAIN | {"AWS_BATCH_JOB_NUM_NODES": "1", "BATCHMARK_NODES_TOKEN": ""}
    assert Node.of(alone).proof == b"", "one node alone needs none"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"AWS_BATCH_JOB_MAIN_NODE_INDEX": "1"}, "NODE_INDEX is 1; the main node must be node 0"),
        ({"AWS_BATCH_JOB_NODE_INDEX": "20"}, "NODE_INDEX is 20; with AWS_BATCH_JOB_NUM_NODES=20"),
        ({"AWS_BATCH_JOB_NUM_NODES": "many"}, "NUM_NODES is 'many'; it must be a whole number"),
        ({ADDRESS: ""}, f"{ADDRESS} is not set; node 3 needs it"),
        ({ADDRESS: "fd00::7"}, f"{ADDRESS} is fd00::7; set it to an IP"),
        ({ADDRESS: EVERY_ADDRESS}, f"{ADDRESS} is 0.0.0.0; set it to an IP"),
        ({"BATCHMARK_JOINING_SECONDS": "0"}, "JOINING_SECONDS is 0; it must be a finite"),
        ({"BATCHMARK_JOINING_SECONDS": "nan"}, "JOINING_SECONDS is nan; it must be"),
        ({"BATCHMARK_JOINING_SECONDS": "soon"}, "JOINING_SECONDS 'soon' is not a number"),
        ({"BATCHMARK_NODES_TOKEN": ""}, "TOKEN has 0 characters; use SubmitJob's nodeOverrides to"),
        ({"BATCHMARK_NODES_TOKEN": "guess"}, "TOKEN has 5 characters; use SubmitJob's"),
    ],
)
def test_what_contradicts_itself_is_refused(changed, reason):
    with pytest.raises(InputError, match=reason) as refused:
        Node.of(CHILD | changed)
    assert "guess" not in str(refused.value)


NETWORKS = {"Networks": [{"NetworkMode": "awsvpc", "IPv4Addresses": ["10.0.3.4"]}]}


@pytest.mark.parametrize("silent", [0, 2], ids=["at once", "not at once"])
def test_its_address_is_the_one_that_ecs_gives_it(monkeypatch, silent):
    answers = iter([*[{}] * silent, NETWORKS])
    monkeypatch.setattr(module, "ecs_metadata", lambda: next(answers))
    assert own_address() == "10.0.3.4"


def test_elsewhere_its_address_is_the_one_towards_the_main_node(monkeypatch):
    monkeypatch.setattr(module, "ecs_metadata", dict)
    assert own_address() is None
    assert own_address("127.0.0.1") == "127.0.0.1"
    assert own_address("fd00::7") is None
    assert interface_of("127.0.0.1") == interface_of("127.9.8.7") is not None
    assert interface_of("203.0.113.9") is None
