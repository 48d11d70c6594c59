"""Local clouds whose jobs are containers."""

from contextlib import AbstractContextManager
from typing import Any

from local_cloud.batch.running.docker_runtime import JOB, OWNER
from tests.clouds import Cloud, running
from tests.containers.images import PYTHON

CONTAINERS = [
    *("--jobs", "containers", "--allow-short-limits", "--stop-grace", "2"),
    *("--vcpus", "4", "--memory", "2048", "--gpus", "2"),
]
FOR_EVER = "import time; time.sleep(3600)"
DEAF = f"""import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True); {FOR_EVER}"""

CALLERS = """
import json, os, socket, time, urllib.request
main = os.environ.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")
metadata = json.load(urllib.request.urlopen(os.environ["ECS_CONTAINER_METADATA_URI_V4"]))
(own,) = metadata["Networks"][0]["IPv4Addresses"]
listener = socket.create_server((own, 29400))  # the same port on every node
if main is None:
    for _ in range(int(os.environ["AWS_BATCH_JOB_NUM_NODES"]) - 1):
        print(listener.accept()[0].recv(100).decode(), flush=True)
else:
    while True:
        try:
            connection = socket.create_connection((main, 29400))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    connection.sendall(f"{own} came to {main}".encode())
    time.sleep(3600)
"""


def containers_of(client: Any, cloud: Cloud) -> list[Any]:
    owner = f"{cloud.endpoint_url} on the host"
    filters = {"label": f"{OWNER}={owner}"}
    return client.containers.list(all=True, filters=filters, ignore_removed=True)


def running_containers(client: Any, job_id: str) -> list[Any]:
    return client.containers.list(filters={"label": f"{JOB}={job_id}"}, ignore_removed=True)


def start(*options: str) -> AbstractContextManager[Cloud]:
    return running(*CONTAINERS, *options)


def define(cloud: Cloud, program: str) -> str:
    """A job definition of a Python program that needs no image of ours."""
    return cloud.define(["python", "-c", program], memory=64, container={"image": PYTHON})


def run_nodes(cloud: Cloud, number: int) -> tuple[list[str], list[dict[str, Any]]]:
    """A multi-node job whose children call its main node: what that said, each node's container."""
    node = {**cloud.container(["python", "-c", CALLERS], memory=64), "image": PYTHON}
    ranges = {"targetNodes": "0:", "container": node}
    definition = cloud.batch.register_job_definition(
        jobDefinitionName=cloud.name("nodes"),
        type="multinode",
        nodeProperties={"numNodes": number, "mainNode": 0, "nodeRangeProperties": [ranges]},
    )["jobDefinitionArn"]
    job_id = cloud.submit(definition)
    job, main = cloud.finish(job_id), cloud.describe(f"{job_id}#0")
    said = cloud.lines(main)
    assert job["status"] == "SUCCEEDED", (job["statusReason"], said)
    return said, [cloud.describe(f"{job_id}#{each}")["container"] for each in range(number)]


def addresses(nodes: list[dict[str, Any]]) -> list[str]:
    interfaces = [node["networkInterfaces"] for node in nodes]
    return [only["privateIpv4Address"] for (only,) in interfaces]
