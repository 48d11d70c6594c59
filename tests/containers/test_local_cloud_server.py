"""The server of jobs as containers: the network it gives them, and what it leaves behind."""

import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from laptop.processes import free_port
from tests.clouds import command_line
from tests.containers.jobs import DEAF, addresses, containers_of, define, run_nodes, start
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def network(client):
    made = client.networks.create(f"batchmark-test-{os.getpid()}", driver="bridge")
    yield made
    made.remove()


def test_on_a_network_nodes_reach_each_other_and_the_server(client, network):
    network.reload()
    gateway = network.attrs["IPAM"]["Config"][0]["Gateway"]
    port = free_port(gateway)
    url = f"http://{gateway}:{port}"
    options = ["--host", gateway, "--port", str(port), "--job-endpoint", url]
    with start(*options, "--job-network", network.name) as cloud:
        said, nodes = run_nodes(cloud, 3)
        address, *others = addresses(nodes)
        assert sorted(said) == sorted(f"{other} came to {address}" for other in others)
        assert len({address, *others}) == 3
        assert {each.rpartition(".")[0] for each in (address, *others)} == {
            gateway.rpartition(".")[0]
        }
        assert nodes[1]["exitCode"] in (137, 143)


@contextmanager
def one_long_job(client, port):
    """A local cloud at a port, and the container of its one job."""
    with start("--port", str(port)) as cloud:
        cloud.wait_for(cloud.submit(define(cloud, DEAF)), "RUNNING")
        (container,) = containers_of(client, cloud)
        yield cloud, container


def test_after_ctrl_c_no_container_is_left(client):
    """Nor after SIGTERM: test_local_cloud_state sees to that."""
    with one_long_job(client, free_port()) as (cloud, _):
        cloud.process.send_signal(signal.SIGINT)
        assert cloud.process.wait(PATIENCE_SECONDS) == 0
        assert containers_of(client, cloud) == []


def test_what_a_killed_server_left_is_removed_by_the_next_at_its_address(client):
    port = free_port()
    with one_long_job(client, port) as (killed, container):
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(PATIENCE_SECONDS)
        container.reload()
        assert container.status == "running"
        with start():  # at another address: none of its business
            assert containers_of(client, killed) == [container]
        with start("--port", str(port)):
            assert containers_of(client, killed) == []


def test_a_network_that_is_not_there_is_one_clear_line(client):
    options = ["--job-network", "batchmark-none", "--job-endpoint", "http://192.0.2.1:5000"]
    ended = subprocess.run(
        command_line("--port", "0", "--jobs", "containers", *options),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "local_cloud: the Docker engine has no network named 'batchmark-none': create it or choose "
        "another\n"
    )
