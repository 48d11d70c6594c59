"""Nodes of one job as processes with addresses of their own, as Batch would start them."""

import json
import os
import signal
import time

import psutil
import pytest

from batchmark_job.result.document import parse_document
from tests.documented import arguments, the_command
from tests.e2e.job.conftest import ended
from tests.stand_ins.http import serving
from tests.waiting import PATIENCE_SECONDS, wait_for

SMALL = (
    *("--suite", "scaling", "--device", "cpu", "--threads", "1", "--image", "32"),
    *("--batches", "2", "--steps", "10", "--max-seconds", "5", "--all-reduce-mib", ""),
)


def test_the_documented_command_measures_one_node(start_job, tmp_path):
    _run, *given = arguments(the_command(".venv/bin/batchmark-job run --suite scaling"))
    path = tmp_path / "result.json"
    quick = ("--image", "32", "--batches", "2", "--max-seconds", "5", "--threads", "1")
    ended(start_job(*given, *quick, "--device", "cpu", "--output", str(path)))
    training, *reductions = parse_document(path.read_bytes()).measurements
    assert training.status in {"measured", "unsettled"}, training.reason
    assert training.scaling.split.compute_seconds > 0
    assert training.scaling.split.communication_seconds == 0
    assert {row.status for row in reductions} == {"skipped"}


@pytest.fixture
def metadata():
    """The task metadata of some nodes, as the ECS agent tells it."""

    def answer(request):
        address = request.path.strip("/").partition("/")[0]
        return 200, json.dumps({"Networks": [{"IPv4Addresses": [address]}]}).encode()

    with serving(answer) as server:
        yield lambda address: f"http://127.0.0.1:{server.server_port}/{address}"


@pytest.fixture
def start_nodes(start_job, metadata, tmp_path):
    """Start so many nodes of one job; the main node's document goes to result.json."""
    network = f"127.{os.getpid() % 250 + 1}.{time.monotonic_ns() % 250}"

    def start(count, *options):
        nodes = []
        for index in range(count):
            address = f"{network}.{index + 1}"
            main = {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": f"{network}.1"}
            environment = {
                "AWS_BATCH_JOB_ID": f"job-1#{index}",
                "AWS_BATCH_JOB_NODE_INDEX": str(index),
                "AWS_BATCH_JOB_NUM_NODES": str(count),
                "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
                "BATCHMARK_NODES_TOKEN": "a secret of thirty-two characters",
                "ECS_CONTAINER_METADATA_URI_V4": metadata(address),
                **(main if index else {}),
            }
            output = tmp_path / ("result.json" if index == 0 else f"{index}.json")
            log = tmp_path / f"log-{index}"
            process = start_job(*options, "--output", str(output), log=log, **environment)
            process.log = log
            nodes.append(process)
        return nodes

    return start


def test_nodes_train_together_on_files_and_one_that_dies_costs_what_follows(start_nodes, tmp_path):
    from batchmark_job.command_line import main as make

    images = tmp_path / "images"
    made = ["images", "--count", "64", "--size", "48", "--shards", "2", "--classes", "2"]
    assert make([*made, "--to", f"{images}/"]) == 0
    files = ("--data", "files", "--files", str(images), "--passes", "cold")
    main, child = start_nodes(2, *SMALL, *files)

    # The files are read, and the first of two launches has trained on them: then a node goes.
    wait_for(lambda: "turn 1 of 2" in main.log.read_text() or main.poll(), "training")
    child.send_signal(signal.SIGKILL)
    main.wait(PATIENCE_SECONDS)

    read, trained = parse_document((tmp_path / "result.json").read_bytes()).measurements
    assert read.status == "measured"
    assert read.bytes_moved == sum(file.stat().st_size for file in images.glob("*.tar"))
    assert trained.items == 4
    assert trained.scaling.ranks == 2
    assert len({node.host for node in trained.scaling.nodes}) == 2
    host = trained.scaling.nodes[1].host
    assert trained.status == "failed"
    assert trained.reason == f"node 1 ({host}) was lost: it closed the connection"
    assert main.returncode == 1
    assert not (tmp_path / "1.json").exists()


def test_a_job_that_is_told_to_stop_keeps_its_rows_as_interrupted(start_nodes, tmp_path):
    main, child = start_nodes(2, *SMALL)
    wait_for(lambda: list(tmp_path.glob("batchmark-ranks-*")), "ranks")
    main.send_signal(signal.SIGTERM)
    assert main.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert child.wait(PATIENCE_SECONDS) == 3
    assert "gave up: it received SIGTERM" in child.log.read_text()
    document = parse_document((tmp_path / "result.json").read_bytes())
    assert document.status == "interrupted"
    assert [row.status for row in document.measurements] == ["interrupted"]
    # A rank that was just starting reads of its job's end a moment later.
    wait_for(lambda: not left_in(tmp_path), "end of all ranks")


def left_in(folder):
    processes = psutil.process_iter(["cmdline"])
    return [each for each in processes if str(folder) in " ".join(each.info["cmdline"] or [])]
